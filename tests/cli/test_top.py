"""Command `mirrormq top`: its screen, its output for scripts, and a real terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from typing import Any

import pika
import pytest

from mirrormq.cli.top_screen import ClusterSnapshot, columns_of, duration, fitted, ring, screen, size
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.ports import free_ports
from tests.management.conftest import managed

A, B, C = "mirror1@localhost", "mirror2@localhost", "mirror3@localhost"
DEADLINE_S = 60.0
COMMAND = [sys.executable, "-m", "mirrormq.cli.main", "top"]
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def _facts(**changes: Any) -> dict[str, Any]:
    return {
        "epoch": 7, "members": [A, B, C], "in_sync": [A, B, C], "joining": [], "waits_for": [], "lag": {},
        "sync": {}, **changes,
    }  # fmt: skip


def _text(line: list[tuple[str, str]]) -> str:
    return "".join(text for text, _ in line)


def _picture(*rows: dict[str, Any], **node: Any) -> ClusterSnapshot:
    nodes = [
        {"name": A, "running": True, "uptime": 3_700_000, "mem_used": 5 << 20, "mem_limit": 1 << 30, **node}
    ]
    queues = [{"name": "q", "vhost": "/", "messages_ready": 1, **row} for row in rows]
    overview = {"cluster_name": "shop", "object_totals": {"queues": len(rows)}}
    return ClusterSnapshot(
        "here", "12:00:00", overview, nodes, {"items": queues, "filtered_count": len(rows)}
    )


def test_a_ring_names_synchronised_and_lagging_members() -> None:
    assert _text(ring({"mirrormq": _facts()})) == "★mirror1 ✓mirror2 ✓mirror3 e7"
    behind = _facts(in_sync=[A, C], lag={B: 1500})
    assert _text(ring({"mirrormq": behind})) == "★mirror1 …mirror2 -1,500 ✓mirror3 e7"
    assert _text(ring({"mirrormq": _facts(waits_for=[C])})) == "down, waits for mirror3"
    assert _text(ring({"mirrormq": _facts(members=[B], in_sync=[B]), "node": B})) == "mirror2"


def test_nothing_that_a_client_named_reaches_the_terminal() -> None:
    lines = screen(_picture({"name": "evil\x1b[2Jqueue\n"}), "messages", 120, 30)
    assert all(_text(line).isprintable() for line in lines)
    assert any("evil?[2Jqueue?" in _text(line) for line in lines)


@pytest.mark.parametrize("width", [20, 60, 80, 200])
@pytest.mark.parametrize("height", [1, 6, 12, 50])
def test_no_line_is_wider_and_no_screen_higher_than_the_terminal(width: int, height: int) -> None:
    rows = [{"name": "队列" * 30, "mirrormq": _facts(), "messages_ready": 10**12}] * 40
    lines = screen(_picture(*rows), "messages", width, height)
    assert len(lines) <= height
    assert all(columns_of(_text(line)) <= width for line in lines)


def test_the_ring_is_whole_on_a_terminal_of_80_columns() -> None:
    rows = [{"name": "a.queue.with.a.long.name.indeed", "mirrormq": _facts(), "messages_ready": 1_234_567}]
    wide = _text(screen(_picture(*rows), "messages", 140, 30)[-1])
    tight_limits = _text(screen(_picture(*rows), "messages", 80, 30)[-1])
    for line in (wide, tight_limits):
        assert line.endswith("★mirror1 ✓mirror2 ✓mirror3 e7")
        assert "1,234,567" in line
    heads = [_text(screen(_picture(*rows), "messages", width, 30)[-2]).split() for width in (140, 80)]
    assert heads[0] == [
        "QUEUE",
        "by",
        "messages",
        "VHOST",
        "READY",
        "UNACKED",
        "IN/s",
        "OUT/s",
        "CONS",
        "RING",
    ]
    assert heads[1] == ["QUEUE", "by", "messag…", "READY", "IN/s", "OUT/s", "RING"]
    elsewhere = _picture({"name": "q", "vhost": "shop", "mirrormq": _facts()})
    assert _text(screen(elsewhere, "messages", 80, 30)[-1]).startswith("shop: q ")


def test_one_queue_is_not_several_and_hidden_rates_are_not_zero() -> None:
    picture = _picture({"name": "q"})
    head = [_text(line) for line in screen(picture, "messages", 120, 30)]
    assert "0 connections  0 channels  0 consumers  1 queue  " in head[1] and head[2].startswith("in 0  ")
    hidden = picture._replace(overview=picture.overview | {"rates_mode": "none"})
    lines = [_text(line) for line in screen(hidden, "messages", 120, 30)]
    assert lines[2].startswith("in –  out –")
    assert next(line for line in lines if line.startswith("q ")).split()[4:6] == ["–", "–"]


def test_trouble_is_said_at_the_top() -> None:
    lines = screen(_picture(mem_alarm=True, partitions=[B]), "messages", 120, 30)
    texts = [_text(line) for line in lines]
    assert f"! {A} has a memory alarm: publishers are blocked" in texts
    assert f"! {A} is partitioned from {B}" in texts
    assert f"! {A} is down" in [_text(line) for line in screen(_picture(running=False), "in", 120, 30)]


def test_numbers_for_people() -> None:
    assert [size(n) for n in (5, 2048, 300 << 20, 5 << 40)] == ["5 B", "2.0 KiB", "300 MiB", "5.0 TiB"]
    assert [duration(n * 1000) for n in (5, 65, 7_500, 90_000)] == ["5s", "1m 5s", "2h 5m", "1d 1h"]
    assert fitted("abcdef", 4) == "abc…" and fitted("队列队列", 5) == "队列…"


@pytest.fixture(scope="module")
def node() -> Iterator[MirrorMQ]:
    with managed() as broker:
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
        channel = connection.channel()
        channel.queue_declare("orders")
        channel.basic_publish("", "orders", b"x")
        channel.queue_declare("idle")
        connection.close()
        yield broker


def _uri(port: int, secret: str = "guest") -> str:
    return f"http://guest:{secret}@127.0.0.1:{port}"


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=60,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_a_script_gets_one_look_and_a_dead_node_is_skipped(node: MirrorMQ) -> None:
    (dead,) = free_ports(1)
    done = _run("--once", "--uri", _uri(dead), "--uri", _uri(node.management_port), "--sort", "name")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines.index(next(line for line in lines if line.startswith("idle"))) < lines.index(
        next(line for line in lines if line.startswith("orders"))
    )
    assert re.search(r"^orders +/ +1 +0 ", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("secret", "options", "said"),
    [("wrong", (), "refused"), ("guest", ("--sort", "colour"), "'colour' is not a sort order")],
)
def test_an_impossible_request_gets_one_sentence(
    node: MirrorMQ, secret: str, options: tuple[str, ...], said: str
) -> None:
    done = _run("--once", "--uri", _uri(node.management_port, secret), *options)
    assert done.returncode == 1 and not done.stdout
    assert said in done.stderr and len(done.stderr.splitlines()) == 1
    assert "wrong" not in done.stderr


class Terminal:
    """Pseudo terminal of 100 columns and 30 lines that runs the program."""

    def __init__(self, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (30, 100))
        self._before = termios.tcgetattr(slave)
        self.slave = slave
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self._process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment | {"TERM": "xterm"},
        )
        self.seen = ""

    def await_text(self, text: str) -> str:
        """Return everything drawn since the last call, until the text appears."""
        deadline = time.monotonic() + DEADLINE_S
        while text not in ESCAPES.sub("", self.seen):
            assert time.monotonic() < deadline, self.seen[-2000:]
            assert self._process.poll() is None or not text, self.seen[-2000:]
            if select.select([self._master], [], [], 0.2)[0]:
                self.seen += os.read(self._master, 65_536).decode("utf-8", "replace")
        seen, self.seen = self.seen, ""
        return seen

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def end(self) -> tuple[int, bool]:
        """Return the exit code, and whether the terminal was restored."""
        code = self._process.wait(DEADLINE_S)
        return code, termios.tcgetattr(self.slave) == self._before

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for handle in (self._master, self.slave):
            with contextlib.suppress(OSError):
                os.close(handle)


def test_the_screen_runs_in_a_terminal(node: MirrorMQ) -> None:
    terminal = Terminal("--uri", _uri(node.management_port), "--interval", "0.3")
    try:
        assert "\x1b[?1049h" in terminal.await_text("q quit")
        assert "QUEUE by messages" in terminal.await_text("orders")
        terminal.type("s")
        terminal.await_text("QUEUE by in")
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.amqp_port))
        connection.channel().queue_declare("newcomer")
        connection.close()
        terminal.await_text("newcomer")
        terminal.type("q")
        terminal.await_text("")
        assert terminal.end() == (0, True)
    finally:
        terminal.close()
