"""Recorder of rabbitmqctl's output for each line of commands.txt on three nodes, normalised.

    python -m tests.cluster_processes.recording > tests/cluster_processes/transcripts/rabbitmqctl.txt
    python -m tests.cluster_processes.recording mirrors.txt > tests/cluster_processes/transcripts/mirrors.txt

records from three real RabbitMQ nodes, in some five minutes. The test holds mirrormqctl to the result.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pika

from tests.brokers.ports import free_ports
from tests.brokers.rabbitmq import RabbitMQ, script_directory
from tests.cli.transcript import BOLD, HINT

HERE = Path(__file__).parent
COMMANDS = HERE / "commands.txt"

Outcome = tuple[int, str, str]
"""Exit code, stdout, stderr."""

PID = re.compile(r"<(NODE\d)[\d.]+>")
TOOLS = re.compile(r"rabbitmq(ctl|-queues|-upgrade)")
PROGRAM = "rabbitmq-"
"""Prefix of a line's first word if it names another program than rabbitmqctl; mirrormqctl is all of them."""
SECTION = re.compile(r"^(Listeners|Versions|Feature flags)$")
LOGGED_BY_THE_TOOL = re.compile(r"^\d\d:\d\d:\d\d\.\d+ \[")
DEFAULT_NAME = re.compile(r"^Cluster name: (NODE\d|.*@.*)$")
"""RabbitMQ's is the node's short name and the machine's full one."""


class Trio(Protocol):
    """Three nodes of one kind of broker."""

    @property
    def names(self) -> Sequence[str]: ...

    def control(self, index: int, words: list[str]) -> Outcome: ...
    def amqp_port(self, index: int) -> int: ...


def transcript(trio: Trio, file: Path = COMMANDS) -> str:
    """Everything that was said to the lines of a file."""
    clients = Clients(trio)
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    return "\n".join(_step(trio, clients, line) for line in lines) + "\n"


def _step(trio: Trio, clients: Clients, line: str) -> str:
    if line.startswith("!"):
        clients.act(*line.split()[1:])
        return f"$ {line}"
    index, *words = shlex.split(line)
    if words[0].startswith(PROGRAM) and not isinstance(trio, RabbitTrio):
        words = words[1:]
    for number, name in enumerate(trio.names, 1):
        words = [word.replace(f"NODE{number}", name) for word in words]
    return written(line, trio.control(int(index) - 1, words), trio.names)


def written(line: str, outcome: Outcome, names: Sequence[str]) -> str:
    """One command and what came of it, without what may differ."""
    code, out, error = outcome
    lines = [f"$ {line}"]
    for mark, text in (("O", out), ("E", error)):
        for number, name in enumerate(names, 1):
            text = text.replace(name, f"NODE{number}")
        rows = _plain(TOOLS.sub("mirrormqctl", PID.sub(r"<\1>", HINT.sub("", BOLD.sub("", text)))))
        if " list_" in f" {line}":
            rows.sort()
        lines += [f"{mark}|{row}".rstrip() for row in rows]
    return "\n".join([*lines, f"=> {code}"])


def _plain(text: str) -> list[str]:
    """The lines, without what Erlang's logger adds, and without the sections that tell versions and ports."""
    kept: list[str] = []
    skipping = False
    for row in text.rstrip("\n").split("\n") if text.strip() else []:
        if LOGGED_BY_THE_TOOL.match(row):
            while kept and not kept[-1]:
                kept.pop()
            continue
        if SECTION.match(row):
            skipping = True
        elif skipping and re.fullmatch(r"[A-Z][A-Za-z ]+", row):
            skipping = False
        if not skipping:
            kept.append(DEFAULT_NAME.sub("Cluster name: (the first node's)", row))
    return kept


class Clients:
    """One connection per node where a line asks for one."""

    def __init__(self, trio: Trio) -> None:
        self._trio = trio
        self._open: dict[str, pika.BlockingConnection] = {}

    def _connect(self, index: str) -> pika.BlockingConnection:
        port = self._trio.amqp_port(int(index) - 1)
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))

    def act(self, index: str, deed: str, *words: str) -> None:
        if deed == "connect":
            self._open[index] = self._connect(index)
            self._open[index].channel()
        elif deed == "disconnect":
            self._open.pop(index).close()
        else:
            connection = self._connect(index)
            channel = connection.channel()
            if deed == "declare":
                channel.queue_declare(words[0], durable="durable" in words)
            else:
                channel.confirm_delivery()
                for _ in range(int(words[1])):
                    channel.basic_publish("", words[0], b"x", pika.BasicProperties(delivery_mode=2))
            connection.close()


class _Member(RabbitMQ):
    """A node that shares the port mapper and the cookie with others."""

    def __init__(self, number: int, port_mapper: int) -> None:
        super().__init__()
        self._epmd_port = port_mapper
        self.node_name = f"rabbit{number}@localhost"

    def _write_configuration(self) -> None:
        super()._write_configuration()
        cookie = self.directory / ".erlang.cookie"
        cookie.write_text("THREENODESONECOOKIE")
        cookie.chmod(0o400)


class RabbitTrio:
    """Three RabbitMQ nodes that can find each other."""

    def __init__(self) -> None:
        (port_mapper,) = free_ports(1)
        self._nodes = [_Member(number, port_mapper) for number in (1, 2, 3)]
        self.names = [node.node_name for node in self._nodes]

    def __enter__(self) -> RabbitTrio:
        try:
            for node in self._nodes:
                node.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self._nodes:
            node.stop()

    def amqp_port(self, index: int) -> int:
        return self._nodes[index].amqp_port

    def control(self, index: int, words: list[str]) -> Outcome:
        scripts = script_directory()
        assert scripts is not None
        program, rest = (words[0], words[1:]) if words[0].startswith(PROGRAM) else ("rabbitmqctl", words)
        done = subprocess.run(
            [str(scripts / program), *rest],
            env=self._nodes[index].environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr


if __name__ == "__main__":
    with RabbitTrio() as recorded:
        print(transcript(recorded, HERE / (sys.argv[1] if len(sys.argv) > 1 else COMMANDS.name)), end="")
