"""Completeness of mirrormqctl: every command of RabbitMQ's tools exists or is refused, and the manual
lists all."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from mirrormq.cli import ctl
from mirrormq.cli.command_line import parse
from mirrormq.cli.completion import WITHOUT_A_NODE
from mirrormq.cli.ctl_commands import COMMANDS
from mirrormq.cli.unsupported import REFUSED

HERE = Path(__file__).parent
MANUAL = HERE.parent.parent / "docs" / "mirrormqctl.md"
_LINES = (HERE / "rabbitmq_commands.txt").read_text().splitlines()
RABBITMQ = dict(line.split() for line in _LINES if not line.startswith("#"))
"""Tool of each RabbitMQ command."""


@pytest.mark.parametrize("command", RABBITMQ)
def test_a_command_of_rabbitmqctl_is_known(command: str) -> None:
    assert (command in COMMANDS or command in WITHOUT_A_NODE) != (command in REFUSED)


def test_only_commands_of_rabbitmqctl_are_refused() -> None:
    assert REFUSED.keys() <= RABBITMQ.keys()


@pytest.mark.parametrize("command", REFUSED)
def test_a_refused_command_gives_the_reason_in_a_sentence(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ctl.run([command, "whatever", "--follows"]) == 69
    heading, sentence = capsys.readouterr().err.splitlines()
    assert heading == "Error:"
    assert re.fullmatch(r"[A-Z].*[^.]\.", sentence)


def test_the_manual_describes_every_command() -> None:
    table = MANUAL.read_text().partition("## Every command")[2]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", table, re.MULTILINE)
    reported = dict(rows)
    assert sorted(reported) == sorted(name for name, _ in rows), "a command is listed twice"
    assert reported.keys() == RABBITMQ.keys() | COMMANDS.keys()
    for command, what in reported.items():
        ours = command not in RABBITMQ
        expected = "refused" if command in REFUSED else "ours" if ours else "as in RabbitMQ"
        assert what.strip().startswith(expected), command


COMPARED = (
    HERE / "commands.txt",
    HERE / "live_commands.txt",
    HERE.parent / "cluster_processes" / "commands.txt",
)
"""Command lines of both programs; RabbitMQ's output is in the transcripts beside them."""


@pytest.mark.parametrize(
    "command", [command for command in RABBITMQ if command.startswith("list_") and command in COMMANDS]
)
def test_a_listing_is_compared_with_rabbitmqs_as_a_table_and_as_json(command: str) -> None:
    lines = [line for path in COMPARED for line in path.read_text().splitlines()]
    asked = [line for line in lines if command in line.split()]
    assert any("--formatter" not in line for line in asked)
    assert any("--formatter json" in line for line in asked)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_of_a_command_is_a_complete_command_line(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ctl.run(["help", command]) == 0
    (example,) = re.findall(r"^Example: mirrormqctl (.+)$", capsys.readouterr().out, re.M)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "definitions.json").write_text("{}")
    line = parse(shlex.split(example))
    assert line.words.pop(0) == command
    ctl.check(COMMANDS[command], line)
    for word in line.words:
        if word.startswith(("{", '"')):
            json.loads(word)
