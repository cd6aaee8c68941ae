"""Shared parts of the client tests: addresses, waiting with a deadline, programs that must be installed."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest

from tests.needs import not_installed

WAIT_S = 60.0
POLL_INTERVAL_S = 0.02
"""Longest wait of a test for an event that must happen; the machine may be busy with other programs."""


def uri(broker: Any, vhost: str = "%2F", query: str = "") -> str:
    """URI that a client connects to."""
    return f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}/{vhost}{query}"


def missing(sentence: str) -> None:
    """Something these tests need is not installed: a failure where everything must run, else a skip."""
    if os.environ.get("CI") == "true":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


def need_program(program: str, package: str) -> str:
    """The path of a program, or the end of the test with what to install."""
    found = shutil.which(program)
    if found is None:
        missing(not_installed(program, package))
    return str(found)
