"""Initial placement: a new queue is declared with its whole ring.

Mirrors that exist from the beginning have all messages, because the queue is empty. A mirrored queue is
therefore safe from its first message on, and no mirror has to be synchronised. Locators by precedence:

    x-queue-master-locator      argument of the client
    queue-master-locator        key of the policy
    queue_master_locator        setting of the node

The `queue-leader-locator` of later RabbitMQs is accepted as well.
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
    """Return the locator of a new queue's master."""
    requested: list[object] = []
    for name in ("x-queue-master-locator", "x-queue-leader-locator"):
        field = arguments.get(name)
        if field is not None and isinstance(field.value, bytes):
            requested.append(field.value.decode("utf-8", "replace"))
    requested += [definition.get("queue-master-locator"), definition.get("queue-leader-locator"), setting]
    return next(
        (_LOCATORS[name] for name in requested if isinstance(name, str) and name in _LOCATORS), CLIENT_LOCAL
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
    """Return the record of a new queue with its master's node and its ring."""
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
