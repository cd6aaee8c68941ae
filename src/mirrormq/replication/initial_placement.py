"""Where a new queue goes: it is declared with its whole ring.

Mirrors that are there from the beginning have everything, because there is nothing yet. So a queue that
a policy mirrors is safe from its first message on, and nobody has to catch up.

    x-queue-master-locator      the client's wish
    queue-master-locator        the policy's
    queue_master_locator        the node's setting

The `queue-leader-locator` of later RabbitMQs is understood as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mirrormq.metadata.records import Node, Queue
from mirrormq.metadata.ring_view import View, alone
from mirrormq.replication.placement import (
    CLIENT_LOCAL,
    MIN_MASTERS,
    RANDOM,
    Choose,
    Mirroring,
    locate_master,
    mirroring,
    wanted,
)
from mirrormq.wire.fields import Table

_LOCATORS = {
    CLIENT_LOCAL: CLIENT_LOCAL,
    MIN_MASTERS: MIN_MASTERS,
    RANDOM: RANDOM,
    "balanced": MIN_MASTERS,
    "least-leaders": MIN_MASTERS,
}


def locator(arguments: Table, definition: Mapping[str, Any], setting: str) -> str:
    """How the node of a new queue's master is found."""
    wishes: list[object] = []
    for name in ("x-queue-master-locator", "x-queue-leader-locator"):
        field = arguments.get(name)
        if field is not None and isinstance(field.value, bytes):
            wishes.append(field.value.decode("utf-8", "replace"))
    wishes += [definition.get("queue-master-locator"), definition.get("queue-leader-locator"), setting]
    return next(
        (_LOCATORS[wish] for wish in wishes if isinstance(wish, str) and wish in _LOCATORS), CLIENT_LOCAL
    )


def place(
    queue: Queue,
    locator: str,
    definition: Mapping[str, Any],
    client_node: str,
    nodes: Mapping[str, Node],
    masters: Mapping[str, int],
    choose: Choose,
) -> Queue:
    """The record of a new queue, with its master's node and its ring."""
    if queue.exclusive or client_node not in nodes:
        return msgspec.structs.replace(queue, node=client_node)
    running = sorted(name for name, node in nodes.items() if node.running)
    resting = frozenset(name for name in running if nodes[name].maintenance)
    policy = mirroring(definition)
    master = locate_master(locator, client_node, _candidates(policy, running, resting), masters, choose)
    master, mirrors = wanted(policy, alone(master), running, choose, resting)
    if not mirrors:
        return msgspec.structs.replace(queue, node=master)
    members = (master, *mirrors)
    return msgspec.structs.replace(queue, node=master, view=View(1, 1, members, frozenset(members)))


def _candidates(policy: Mirroring | None, running: list[str], resting: frozenset[str]) -> list[str]:
    able = [name for name in running if name not in resting]
    if policy is not None and policy.mode == "nodes":
        return [name for name in policy.nodes if name in able]
    return able
