"""Command `mirrormq server`: options read without the whole program, and what a node loads."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mirrormq.cli.help_pages import command_of
from mirrormq.cli.program import app
from mirrormq.cli.server import PATH_OPTIONS, REPEATED_OPTIONS, TEXT_OPTIONS, plain_options
from mirrormq.client_io.blocking_client import connect
from mirrormq.testing import Cluster

IDLE_BYTES_MAX = 50_000_000
"""Bound of an idle node's memory (`make bench`, line memory)."""


def test_plain_options_are_those_of_the_help_page() -> None:
    """Check that both readers of the command line know the same options."""
    parameters = command_of(app).commands["server"].params
    repeated = {parameter.name for parameter in parameters if parameter.multiple}
    assert set(REPEATED_OPTIONS) == repeated
    assert {*TEXT_OPTIONS, *PATH_OPTIONS} == {parameter.name for parameter in parameters} - repeated


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--name", "a@b", "--data=var/a", "--cookie-file", "c"],
        ["--amqp", "1", "--amqp=2", "--join=x@y", "--name", "first", "--name", "last"],
        ["--conf", "a=b"],
    ],
    ids=" ".join,
)
def test_plain_options_are_read_as_by_the_whole_program(words: list[str]) -> None:
    context = command_of(app).commands["server"].make_context("server", list(words))
    expected = {name: value for name, value in context.params.items() if value}
    assert plain_options(words) == expected


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--nam", "x"],
        ["name"],
        ["--name"],
        ["--name", ""],
        ["--name", "--data"],
        ["--cookie_file", "x"],
    ],
    ids=" ".join,
)
def test_other_command_lines_are_left_to_the_whole_program(words: list[str]) -> None:
    assert plain_options(words) is None


def test_a_node_loads_no_help_pages_and_no_http_application(tmp_path: Path) -> None:
    script = (
        "import sys, mirrormq.cli.main, mirrormq.runtime.node\n"
        "absent = ('typer', 'rich', 'pydantic', 'starlette', 'h11', 'regex', 'urllib.request', 'email')\n"
        "print([name for name in absent if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_memory_of_a_node_that_has_checked_passwords() -> None:
    """Log in from several threads at once: no check leaves its 16 MiB behind."""
    with Cluster(nodes=1) as running:
        for number in range(6):
            connect(running.uri(), 10.0).close()
            time.sleep(0.1 * number)
        pid = running.local.nodes[0].pid
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    assert pages * os.sysconf("SC_PAGE_SIZE") <= IDLE_BYTES_MAX
