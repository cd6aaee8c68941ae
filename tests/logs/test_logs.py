"""Lines where and as the settings say, at the levels that hold; texts are those of a real RabbitMQ.

`recorded.json` is what RabbitMQ 3.10.8 logged of the scene (`python -m tests.logs.record` writes it anew).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from mirrormq.config.settings import LogOptions
from mirrormq.events.log_buffer import CONNECTION, MIRRORING, TURN_MAX, LogBuffer
from mirrormq.runtime.log_output import Logs
from tests.brokers.mirrormq import MirrorMQ
from tests.logs.record import RECORDING
from tests.logs.scene import Line, act, lines_of, shown
from tests.management.conftest import managed
from tests.waiting import until

DIFFERENT = {"closing AMQP connection <pid> (address -> address, vhost: 'none', user: 'guest')"}
"""A client that asked for a missing vhost was never in one; RabbitMQ names it all the same."""


@pytest.fixture(scope="module")
def node() -> Iterator[MirrorMQ]:
    with managed("log.console.formatter = json\n") as broker:
        yield broker


def _seen(node: MirrorMQ) -> list[Line]:
    return [shown(line) for line in lines_of(node.output)]


def test_log_entries_of_rabbitmq_have_its_words(node: MirrorMQ) -> None:
    act(node.amqp_port, node.management_port)
    until(lambda: any("Deleting vhost" in text for _, _, text in _seen(node)))
    wanted = [tuple(line) for line in json.loads(RECORDING.read_text()) if line[2] not in DIFFERENT]
    assert len(wanted) > 15

    def missing() -> Counter[Any]:
        return Counter(wanted) - Counter(_seen(node))

    until(lambda: not missing())
    assert not missing()
    policy = "Successfully set policy 'short' matching queues names in virtual host 'v1' using pattern '^q'"
    assert ("info", "rabbitmq", policy) in _seen(node)
    lines = lines_of(node.output)
    assert all({"time", "level", "msg", "domain"} <= line.keys() for line in lines)
    named = next(line for line in lines if "granted access" in line["msg"])
    assert (named["user"], named["vhost"]) == ("guest", "/")


def _connected(node: MirrorMQ, name: str) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", node.amqp_port)
    parameters.client_properties = {"connection_name": name}
    pika.BlockingConnection(parameters).close()


def test_levels_change_while_the_node_runs(node: MirrorMQ) -> None:
    node.control("set_log_level", "connection", "error")
    _connected(node, "unseen")
    node.control("set_log_level", "connection", "info")
    _connected(node, "seen")
    until(lambda: "name: seen" in node.output)
    assert "unseen" not in node.output
    node.control("set_log_level", "none")
    node.control("set_log_level", "info")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["loud"], 69, "level loud is not supported. Try one of debug, info, warning, error, critical, none"),
        (["weather", "debug"], 69, "category weather is not supported."),
        ([], 64, "not enough arguments."),
        (["a", "b", "c"], 64, "too many arguments."),
    ],
)
def test_an_unknown_level_is_refused(node: MirrorMQ, words: list[str], code: int, said: str) -> None:
    program = str(Path(sys.executable).with_name("mirrormqctl"))
    done = subprocess.run(
        [program, "-n", node.node_name, "set_log_level", *words], env=node.environment(), capture_output=True,
        text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr


def test_a_client_cannot_write_lines_of_its_own(node: MirrorMQ) -> None:
    _connected(node, 'evil\n{"level": "critical", "msg": "all is lost"}\x1b[2J')
    until(lambda: "evil?{" in node.output)
    assert "\x1b" not in node.output
    assert not [line for line in lines_of(node.output) if line["level"] == "critical"]


def test_alarms_are_warnings(node: MirrorMQ) -> None:
    node.control("set_vm_memory_high_watermark", "0.00000001")
    until(lambda: "memory resource limit alarm set on node mirror1@localhost" in node.output)
    node.control("set_vm_memory_high_watermark", "0.4")
    until(lambda: "memory resource limit alarm cleared on node mirror1@localhost" in node.output)


def test_a_file_and_the_console_each_have_a_format_and_a_level(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "logs" / "node.log"
    options = LogOptions(console=True, file=path, file_formatter="json", file_level="warning")
    logs = Logs(options)
    log = logs.logger()
    log.info("for people", category="connection", peer="a\udcff")
    log.warning("for both", queue="q")
    said = capsys.readouterr().err
    assert "for people" in said and "for both" in said
    (line,) = lines_of(path.read_text())
    assert (line["msg"], line["level"], line["domain"]) == ("for both", "warning", "rabbitmq")
    assert line["queue"] == "q"
    path.rename(path.with_suffix(".old"))
    logs.reopen()
    log.error("in a new file")
    assert [line["msg"] for line in lines_of(path.read_text())] == ["in a new file"]


def test_a_category_has_the_default_level_unless_it_has_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    logs = Logs(LogOptions(level="warning", categories=(("mirroring", "debug"),), formatter="json"))
    log = logs.logger()
    log.info("no", category="queue")
    log.info("yes", category="mirroring")
    log.bind(category="queue").error("also")
    assert [line["msg"] for line in lines_of(capsys.readouterr().err)] == ["yes", "also"]


def test_a_line_that_cannot_be_written_delays_no_writer_and_is_kept() -> None:
    logs = Logs(LogOptions(file=Path("/dev/full")))
    logs.logger().warning("the disk is full")
    logs.logger().warning("and stays full")
    assert [line.partition("] ")[2] for line in logs.lines_after(None)[1]] == [
        "the disk is full",
        "and stays full",
    ]


def test_a_flood_is_cut_and_counted() -> None:
    log_entries = LogBuffer()
    for number in range(TURN_MAX + 30):
        log_entries.add("info", MIRRORING, f"promoted {number}")
    log_entries.add("info", CONNECTION, "somebody came")
    taken = log_entries.take()
    assert len(taken) == TURN_MAX + 2
    assert taken[-1].text == "30 more events at the same time are not shown"
    assert not log_entries and not log_entries.take()
