"""The audit and the independent checker say the same of thousands of random histories.

`python -m tests.spark.agreement --histories 1000000` compares on a million.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.agreement import ANSWERS, disagreements
from tests.spark.checker import Verdict
from tests.spark.events import Event
from tests.spark.random_histories import random_history

HISTORIES = 4_000
SEED = 11


def test_audit_and_checker_agree(spark: SparkSession, tmp_path: Path) -> None:
    wrong = disagreements(spark, 0, HISTORIES, SEED, tmp_path)
    assert not wrong, f"{len(wrong)} disagreements:\n" + "\n".join(wrong[:10])


def _every(change: Callable[[Event], Event | None]) -> Callable[[list[Event]], list[Event]]:
    return lambda events: [new for event in events if (new := change(event)) is not None]


RULES: dict[str, Callable[[list[Event]], list[Event]]] = {
    "a returned message's confirm promises nothing": _every(lambda e: None if e.kind == "returned" else e),
    "a nack is an answer": _every(lambda e: None if e.kind == "nacked" else e),
    "the flag is looked at": _every(lambda e: e._replace(redelivered=False)),
    "a second attempt may come late": _every(lambda e: e._replace(attempt=1)),
    "consumers are told apart": _every(lambda e: e._replace(consumer=0) if e.consumer is not None else e),
    "publishers are told apart": _every(lambda e: e._replace(publisher=0) if e.publisher else e),
    "queues are told apart": _every(lambda e: e._replace(queue="orders")),
    "a lost connection begins a new life": _every(lambda e: None if e.kind == "disconnected" else e),
    "a cancelled consumer begins a new life": _every(lambda e: None if e.kind == "cancelled" else e),
    "a fault ends": _every(lambda e: None if e.kind == "fault_ended" else e),
    "a claim counts": _every(lambda e: None if e.kind == "master" else e),
    "epochs are told apart": _every(lambda e: e._replace(epoch=1) if e.epoch else e),
    "sequences are told apart": _every(lambda e: e._replace(sequence=0) if e.sequence else e),
    "nodes are told apart": _every(lambda e: e._replace(node="one") if e.node else e),
    "an acknowledgement counts": _every(lambda e: None if e.kind == "acknowledged" else e),
}
"""Histories as they would be without a rule: the rule's subject is removed."""


@pytest.mark.parametrize("rule", RULES)
def test_random_histories_reach_every_rule(rule: str) -> None:
    """Otherwise the agreement above would prove nothing about it."""
    changed: Counter[str] = Counter()
    for run in range(1500):
        history = random_history(run, SEED)
        as_is, spoilt = Verdict(history), Verdict(RULES[rule](history))
        for name in ANSWERS:
            one: Any = getattr(as_is, name)()
            changed[name] += one != getattr(spoilt, name)()
    assert changed.total() >= 5, changed
