"""Comparison of mirrormqctl's output for a broker with active clients with that of RabbitMQ's tools."""

from __future__ import annotations

import difflib
import io
from contextlib import redirect_stderr, redirect_stdout

import pytest

from mirrormq.cli import ctl
from tests.brokers.admin import MirrorAdmin
from tests.brokers.mirrormq import MirrorMQ
from tests.cli.live_scene import RECORDED, Outcome, scene, transcript


def run(program: str, words: list[str]) -> Outcome:
    out, error = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(error):
        code = ctl.run(words)
    return code, out.getvalue(), error.getvalue()


def test_every_recorded_line_is_answered_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    with MirrorMQ() as broker:
        monkeypatch.setenv("MIRRORMQ_RUNTIME_DIR", str(broker.directory / "run"))
        monkeypatch.setenv("MIRRORMQ_NODE", broker.node_name)
        with scene(broker, MirrorAdmin(broker)):
            ours = transcript(run, broker).splitlines()
    theirs = RECORDED.read_text().splitlines()
    difference = difflib.unified_diff(theirs, ours, "RabbitMQ", "MirrorMQ", lineterm="", n=3)
    assert "\n".join(difference) == ""
