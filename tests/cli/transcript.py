"""Recorder of rabbitmqctl's output for each line of commands.txt, in a normalised form.

    python -m tests.cli.transcript > tests/cli/transcripts/rabbitmqctl.txt

records from a RabbitMQ that it starts, in some three minutes. The test holds mirrormqctl to the result.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.brokers.rabbitmq import RabbitMQ, script_directory

HERE = Path(__file__).parent
COMMANDS = HERE / "commands.txt"
RECORDED = HERE / "transcripts" / "rabbitmqctl.txt"
OF_A_PLUGIN = "amq.rabbitmq.event"
"""Exchange that the test broker has and a plain RabbitMQ does not."""
BOLD = re.compile(r"\x1b\[\d+m")
HINT = re.compile(r"^(Hint|Warning): .*\n", re.MULTILINE)
"""Sentences that mirrormqctl adds to RabbitMQ's output."""

Outcome = tuple[int, str, str]
"""Exit code, stdout, stderr."""


def commands() -> list[str]:
    """Return the command lines in order."""
    return COMMANDS.read_text().splitlines()


def written(line: str, outcome: Outcome, node: str) -> str:
    """Return one command and its outcome, without the names of the program and the node.

    Rows of a list come in no particular order, so they are sorted.
    """
    code, out, error = outcome
    lines = [f"$ {line}"]
    for mark, text in (("O", out), ("E", error)):
        plain = HINT.sub("", BOLD.sub("", text)).replace(node, "NODE").replace("rabbitmqctl", "mirrormqctl")
        rows = plain.rstrip("\n").split("\n") if plain.strip("\n") else []
        if mark == "O" and " list_" in f" {line}":
            rows = sorted(row.lstrip(",") for row in rows if OF_A_PLUGIN not in row)
        lines += [f"{mark}|{row}".rstrip() for row in rows]
    return "\n".join([*lines, f"=> {code}"])


def transcript(run: Callable[[list[str]], Outcome], node: str) -> str:
    """Return all outcomes as one text."""
    return "\n".join(written(line, run(shlex.split(line)), node) for line in commands()) + "\n"


def recorded() -> str:
    """Record the transcript of a real RabbitMQ."""
    scripts = script_directory()
    assert scripts is not None

    def rabbitmqctl(words: list[str]) -> Outcome:
        done = subprocess.run(
            [str(scripts / "rabbitmqctl"), *words],
            env=broker.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    with RabbitMQ() as broker:
        return transcript(rabbitmqctl, broker.node_name)


if __name__ == "__main__":
    print(recorded(), end="")
