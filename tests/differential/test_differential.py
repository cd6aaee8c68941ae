"""Each script, on MirrorMQ and on RabbitMQ: the transcripts must be equal.

Where RabbitMQ 3.10.8 is installed it runs beside MirrorMQ, and the transcripts kept in the repository are
checked against it too. Where it is not, those kept transcripts stand in for it, and the summary says so.
"""

from __future__ import annotations

import difflib

import pytest

import tests.differential.scripts  # noqa: F401 - registers the scripts
from tests.differential.conftest import Transcripts
from tests.differential.runner import SCRIPTS

pytestmark = pytest.mark.timeout(600)  # the first test waits for all scripts to have run


def difference(expected: str, found: str, judge: str, accused: str) -> str:
    lines = difflib.unified_diff(expected.splitlines(), found.splitlines(), judge, accused, lineterm="", n=6)
    return "\n".join(lines)


@pytest.mark.parametrize("name", SCRIPTS)
def test_mirrormq_answers_as_rabbitmq(name: str, transcripts: Transcripts) -> None:
    expected, found = transcripts.judge[name], transcripts.mirrormq[name]
    if found != expected:
        pytest.fail(f"\n{difference(expected, found, transcripts.judge_name, 'MirrorMQ')}", pytrace=False)


def test_kept_transcripts_are_rabbitmqs(transcripts: Transcripts) -> None:
    """Stored transcripts equal those of a real RabbitMQ today; every script has one."""
    wrong = [
        difference(transcripts.judge[name], transcripts.kept.get(name, ""), "RabbitMQ now", f"kept {name}")
        for name in transcripts.judge
        if transcripts.judge[name] != transcripts.kept.get(name, "")
    ]
    assert not wrong, "\n".join(["record them again: python -m tests.differential.record", *wrong])


def test_there_are_no_forgotten_transcripts(transcripts: Transcripts) -> None:
    assert set(transcripts.kept) == set(SCRIPTS)


def test_no_script_stops_early_on_the_judge(transcripts: Transcripts) -> None:
    """A script that stops or fails on RabbitMQ itself tests nothing behind that point."""
    stopped = [name for name, text in transcripts.kept.items() if "\nSTOPPED " in text or "\nFAILED " in text]
    assert not stopped
