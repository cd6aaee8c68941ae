"""Where the replicas of a queue belong: which node is its master, which nodes are its mirrors.

A policy says how many or which (`all`, `exactly`, `nodes`), a locator where the master of a new
queue goes (`client-local`, `min-masters`, `random`). Given what there is, `wanted` says what ought to
be, and `next_view` one safe step on the way: mirrors are added before any are taken away, and a
master that must go is kept until a synchronised mirror can take its place. Chance comes from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from mirrormq.metadata.view import View

Choose = Callable[[int], int]
"""Given n > 0, a number from 0 to n - 1."""

CLIENT_LOCAL, MIN_MASTERS, RANDOM = "client-local", "min-masters", "random"


class Mirroring(NamedTuple):
    """What a policy asks for; no policy is no `Mirroring`."""

    mode: str
    """all, exactly, nodes."""
    replicas: int = 0
    """exactly: replicas, the master among them."""
    nodes: tuple[str, ...] = ()
    """nodes: their names, in the policy's order."""


def mirroring(definition: Mapping[str, object]) -> Mirroring | None:
    """The `ha-mode` and `ha-params` of an effective policy."""
    mode, params = definition.get("ha-mode"), definition.get("ha-params")
    if mode == "all":
        return Mirroring("all")
    if mode == "exactly" and isinstance(params, int):
        return Mirroring("exactly", replicas=params)
    if mode == "nodes" and isinstance(params, list | tuple):
        return Mirroring("nodes", nodes=tuple(str(name) for name in params))
    return None


def wanted(
    policy: Mirroring | None, view: View, running: Sequence[str], choose: Choose
) -> tuple[str, tuple[str, ...]]:
    """The master and the mirrors that a queue ought to have, existing ones kept where possible."""
    master = view.master
    mirrors = [name for name in view.members[1:] if name in running]
    if policy is None:
        return master, ()
    if policy.mode == "all":
        return master, (*mirrors, *(name for name in running if name not in mirrors and name != master))
    if policy.mode == "exactly":
        return master, _exactly(policy.replicas, master, mirrors, running, choose)
    return _listed(policy.nodes, view, running)


def _exactly(
    count: int, master: str, mirrors: list[str], running: Sequence[str], choose: Choose
) -> tuple[str, ...]:
    """Keep the oldest mirrors, add any others."""
    kept = mirrors[: max(0, count - 1)]
    others = [name for name in running if name != master and name not in kept]
    while len(kept) < count - 1 and others:
        kept.append(others.pop(choose(len(others))))
    return tuple(kept)


def _listed(nodes: tuple[str, ...], view: View, running: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """`nodes`: a master outside the list stays until a listed mirror is synchronised."""
    listed = [name for name in nodes if name in running]
    master = view.master
    if not listed:
        return master, ()
    if master not in listed:
        synchronised = [name for name in listed if name in view.in_sync and name in view.members]
        if synchronised:
            master = synchronised[0]
    old = [name for name in view.members if name in listed and name != master]
    return master, (*old, *(name for name in listed if name not in old and name != master))


def next_view(view: View, master: str, mirrors: Sequence[str]) -> View:
    """One step from `view` towards the master and mirrors that are wanted; `view` itself if there."""
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
    """The node for a new queue's master; `masters` counts those that each node has."""
    if client_node in candidates and locator not in (MIN_MASTERS, RANDOM):
        return client_node
    if not candidates:
        return client_node
    if locator == RANDOM:
        return candidates[choose(len(candidates))]
    fewest = min(masters.get(name, 0) for name in candidates)
    least = [name for name in candidates if masters.get(name, 0) == fewest]
    return client_node if client_node in least and locator != MIN_MASTERS else least[0]


def rebalance(masters: Mapping[str, str], movable: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Moves that spread masters evenly: queue → new master.

    `masters` is queue → present master, `movable` queue → nodes with a synchronised mirror of it.
    Each step takes a queue from the fullest node to the emptiest one that can have it, until no step
    makes the difference smaller.
    """
    place = dict(masters)
    nodes = sorted({*masters.values(), *(name for names in movable.values() for name in names)})
    while nodes:
        count = {name: sum(at == name for at in place.values()) for name in nodes}
        moves = [
            (count[place[queue]] - count[target], queue, target)
            for queue in sorted(place)
            for target in sorted(movable.get(queue, ()))
            if count[place[queue]] - count[target] > 1
        ]
        if not moves:
            break
        _, queue, target = max(moves, key=lambda move: (move[0], -nodes.index(move[2]), move[1]))
        place[queue] = target
    return {queue: target for queue, target in place.items() if masters[queue] != target}
