"""Commands of absent plugins: the output is rabbitmqctl's without these plugins."""

from __future__ import annotations

import io
import re
import subprocess
from contextlib import redirect_stderr, redirect_stdout

import pytest

from mirrormq.cli import ctl
from mirrormq.control.hints import likeness, suggestion
from tests.brokers.rabbitmq import RabbitMQ, script_directory

LINES = {
    "list_user": "list_users",
    "sync_que orders": "sync_queue",
}
"""Typed commands, and the suggestion of both programs."""
BOLD = re.compile(r"\x1b\[\d+m")
USAGE = (
    "mirrormqctl [--node <node>] [--timeout <timeout>] [--longnames] [--quiet] <command> [<command options>]"
)


def begin(text: str) -> str:
    """Return the output up to the list of commands, which differs."""
    plain = BOLD.sub("", text).replace("rabbitmqctl", "mirrormqctl")
    return plain.partition("Available commands:")[0].rstrip("\n")


@pytest.mark.parametrize("line", LINES)
def test_an_unknown_command_is_not_found(line: str) -> None:
    out, error = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(error):
        assert ctl.run(line.split()) == 64
    meant = LINES[line]
    rest = f"Did you mean '{meant}'? " if meant else f"\nUsage\n\n{USAGE}"
    assert begin(error.getvalue()) == f"\nCommand '{line.split()[0]}' not found. \n{rest}"
    assert ("Available commands:" in error.getvalue()) == (meant is None)
    assert out.getvalue() == ""


@pytest.mark.rabbitmq
@pytest.mark.slow
def test_rabbitmqctl_says_the_same(rabbitmq: RabbitMQ) -> None:
    scripts = script_directory()
    assert scripts is not None
    for line in LINES:
        done = subprocess.run(
            [str(scripts / "rabbitmqctl"), *line.split()],
            env=rabbitmq.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        error = io.StringIO()
        with redirect_stderr(error):
            code = ctl.run(line.split())
        assert (done.returncode, done.stdout, begin(done.stderr)) == (code, "", begin(error.getvalue()))


def test_words_are_more_or_less_alike() -> None:
    assert likeness("queue", "queue") == 1.0 and likeness("abc", "xyz") == 0.0
    assert likeness("martha", "marhta") == pytest.approx(0.944, abs=0.001)
    assert suggestion("list_queue", ["list_queues", "list_users"]) == "list_queues"
    assert suggestion("anything", []) is None
