"""Placement of a queue's replicas: its master's node and its mirrors' nodes.

A policy defines how many or which nodes (`all`, `exactly`, `nodes`), a locator the node of a new queue's
master (`client-local`, `min-masters`, `random`). `wanted` returns the desired placement for the present
one, and `next_view` one safe step towards it. It adds mirrors before it removes any, and keeps a master
that must move until a synchronised mirror can take its place. Randomness comes from the caller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeVar

from mirrormq.metadata.ring_view import View

K = TypeVar("K", int, str)

Choose = Callable[[int], int]
"""Random source: given n > 0, returns a number from 0 to n - 1."""

CLIENT_LOCAL, MIN_MASTERS, RANDOM = "client-local", "min-masters", "random"


class Mirroring(NamedTuple):
    """Mirroring settings of a policy. A queue without them is not mirrored."""

    mode: str
    """Mirroring mode: all, exactly or nodes."""
    replicas: int = 0
    """Number of replicas, including the master (mode exactly)."""
    nodes: tuple[str, ...] = ()
    """Node names, in the policy's order (mode nodes)."""


def mirroring(definition: Mapping[str, object]) -> Mirroring | None:
    """Return the mirroring settings (`ha-mode`, `ha-params`) of an effective policy."""
    mode, params = definition.get("ha-mode"), definition.get("ha-params")
    if mode == "all":
        return Mirroring("all")
    if mode == "exactly" and isinstance(params, int):
        return Mirroring("exactly", replicas=params)
    if mode == "nodes" and isinstance(params, list | tuple):
        return Mirroring("nodes", nodes=tuple(str(name) for name in params))
    return None


def wanted(
    policy: Mirroring | None,
    view: View,
    running: Sequence[str],
    choose: Choose,
    resting: Collection[str] = (),
) -> tuple[str, tuple[str, ...]]:
    """Return the master and the mirrors that a queue should have; existing ones are kept where possible.

    All members of `view` that are to be kept are in `running`. Nodes that are `resting` keep their mirrors
    and get no new ones.
    """
    master = view.master
    if policy is None:
        return master, ()
    mirrors = [name for name in view.members[1:] if name in running]
    others = [name for name in running if name not in view.members and name not in resting]
    if policy.mode == "all":
        return master, (*mirrors, *others)
    if policy.mode == "exactly":
        return master, _exactly(policy.replicas - 1, view, mirrors, others, choose)
    return _listed([name for name in policy.nodes if name in view.members or name in others], view, resting)


def _exactly(
    count: int, view: View, mirrors: list[str], others: list[str], choose: Choose
) -> tuple[str, ...]:
    """Keep synchronised mirrors first, then the oldest of the rest; add randomly chosen nodes."""
    by_worth = sorted(mirrors, key=lambda name: name not in view.in_sync)
    kept = [name for name in mirrors if name in by_worth[: max(0, count)]]
    while len(kept) < count and others:
        kept.append(others.pop(choose(len(others))))
    return tuple(kept)


def _listed(listed: list[str], view: View, resting: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """Return master and mirrors for mode `nodes`. A master outside the list stays until a listed mirror is
    synchronised."""
    master = view.master
    if not listed:
        return master, ()
    if master not in listed:
        ready = [name for name in listed if name in view.in_sync and name not in resting]
        master = ready[0] if ready else master
    old = [name for name in view.members if name in listed and name != master]
    return master, (*old, *(name for name in listed if name not in old and name != master))


def next_view(view: View, master: str, mirrors: Sequence[str]) -> View:
    """Return the view one step from `view` towards this master and these mirrors; `view` itself if it has
    them."""
    # Add mirrors first, then move the master to one of them, and remove mirrors last: no step drops a copy
    # that the policy still needs.
    missing = tuple(name for name in mirrors if name not in view.members)
    if missing:
        return view.with_members((*view.members, *missing))
    if master != view.master:
        others = tuple(name for name in view.members if name not in (master, view.master))
        members = (master, *others, view.master)
        return view.with_members(members, epoch=view.epoch + 1)
    members = tuple(name for name in view.members if name == master or name in mirrors)
    if members == view.members:
        return view
    return view.with_members(members)


def locate_master(
    locator: str, client_node: str, candidates: Sequence[str], masters: Mapping[str, int], choose: Choose
) -> str:
    """Return the node for a new queue's master; `masters` counts the masters of each node.

    The first candidate replaces a client's node that is no candidate. Without candidates the client's node is
    used.
    """
    if not candidates:
        return client_node
    if locator == RANDOM:
        return candidates[choose(len(candidates))]
    if locator == MIN_MASTERS:
        return min(candidates, key=lambda name: masters.get(name, 0))
    return client_node if client_node in candidates else candidates[0]


def rebalance(masters: Mapping[K, str], movable: Mapping[K, Collection[str]]) -> dict[K, str]:
    """Return moves that distribute masters evenly: queue → new master.

    `masters` is queue → present master, `movable` queue → nodes with a synchronised mirror of it. Each step
    moves a queue from the fullest possible node to the emptiest one that can have it, until no step reduces a
    difference.
    """
    place = dict(masters)
    count = Counter(masters.values())
    count.update({name: 0 for names in movable.values() for name in names})
    candidates: dict[tuple[str, str], list[K]] = {}
    for queue in sorted(masters, reverse=True):
        for target in movable.get(queue, ()):
            candidates.setdefault((masters[queue], target), []).append(queue)
    while move := _best_move(candidates, place, count):
        source, target = move
        queue = candidates[move].pop()
        place[queue] = target
        count[source] -= 1
        count[target] += 1
        for other in movable[queue]:
            if other != target:
                candidates.setdefault((target, other), []).append(queue)
    return {queue: target for queue, target in place.items() if masters[queue] != target}


def _best_move(
    candidates: Mapping[tuple[str, str], list[K]], place: Mapping[K, str], count: Mapping[str, int]
) -> tuple[str, str] | None:
    """Return source and target of the next move; drop queues that have moved already from the candidates."""
    moves = sorted(candidates, key=lambda move: (count[move[1]] - count[move[0]], move))
    for source, target in moves:
        if count[source] - count[target] <= 1:
            return None
        queues = candidates[source, target]
        while queues and place[queues[-1]] != source:
            queues.pop()
        if queues:
            return source, target
    return None
