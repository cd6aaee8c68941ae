"""Node's amqplib: each test runs one round of amqplib_work.js in a process of its own and judges its JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clients.support import WAIT_S, uri
from tests.node_packages import need_node_package

HERE = Path(__file__).resolve().parent

Work = Callable[[str], Any]


@pytest.fixture(scope="session")
def node() -> str:
    """Return the path of node, with amqplib installed beside this file."""
    return need_node_package(HERE, "amqplib")


@pytest.fixture
def work(node: str, broker: Any, name: str) -> Work:
    """Runs a round and returns what it printed."""

    def run(round_name: str) -> Any:
        done = subprocess.run(
            [node, str(HERE / "amqplib_work.js"), round_name, uri(broker), name],
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_a_confirm_channel_confirms_every_message(work: Work) -> None:
    assert work("confirms") == {"confirmed": 100, "messageCount": 100}


def test_a_full_queue_refuses(work: Work) -> None:
    assert work("refusals") == [False, True]


def test_a_thousand_messages_arrive_in_order(work: Work) -> None:
    assert work("thousand") == {"inOrder": True, "redelivered": 0, "messageCount": 0}


def test_prefetch_holds_the_rest_back(work: Work) -> None:
    assert work("prefetch") == {"held": ["0", "1", "2", "3"], "messageCount": 6}


def test_queue_arguments_work_and_must_be_the_same_again(work: Work, name: str) -> None:
    result = work("arguments")
    text = result.pop("message")
    assert result == {
        "reason": "expired", "queue": name, "count": 1, "number": 1.5, "list": [1, "two"], "priority": 3,
        "code": 406,
    }  # fmt: skip
    assert f"PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue '{name}' in vhost '/'" in text
    assert "received '40' but current is '30'" in text


def test_checking_a_queue_that_is_not_there_closes_the_channel_only(work: Work, name: str) -> None:
    result = work("missing")
    text = f"NOT_FOUND - no queue '{name}' in vhost '/'"
    assert (result["code"], result["serverNamed"]) == (404, True)
    assert text in result["message"] and text in result["rejected"]


def test_an_alternate_exchange_takes_what_was_not_routed(work: Work, name: str) -> None:
    assert work("alternate") == {
        "known": "1", "others": "2", "exchange": name, "routingKey": "unknown", "empty": False,
    }  # fmt: skip


def test_a_return_comes_before_its_confirm(work: Work) -> None:
    assert work("returns") == [["return", 312, "lost"], ["confirm"]]


def test_a_consumer_is_cancelled_when_its_queue_is_deleted(work: Work) -> None:
    assert work("cancels") is None
