"""Edge cases get the same replies as from a real RabbitMQ: status, headers and texts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.brokers.mirrormq import MirrorMQ
from tests.management import edges, record
from tests.management.edges import EDGES
from tests.management.test_differential import in_order
from tests.needs import need_rabbitmq

RECORDED: list[dict[str, Any]] = json.loads(record.EDGES.read_text())


@pytest.fixture(scope="module")
def seen(node: MirrorMQ) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(json.dumps(edges.observe(node.management_port)))
    return found


def test_the_recording_is_of_these_requests() -> None:
    assert [answer["asked"] for answer in RECORDED] == [list(edge) for edge in EDGES]


@pytest.mark.parametrize("number", range(len(EDGES)))
def test_an_odd_request_is_answered_as_rabbitmq_answers_it(number: int, seen: list[dict[str, Any]]) -> None:
    theirs, ours = RECORDED[number], seen[number]
    assert in_order(ours) == in_order(theirs)


@pytest.mark.rabbitmq
@pytest.mark.slow
def test_the_recording_is_what_rabbitmq_answers() -> None:
    need_rabbitmq()
    assert in_order(record.at_the_edges()) == in_order(RECORDED)
