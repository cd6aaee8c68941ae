"""Who becomes master when the master is gone, and when nobody may.

# The promise

What was confirmed is with every member of the in-sync set, so any *synchronised* member may become
master without loss. The oldest of them does: data flows in order of age, so no younger one has more.
A member that is not synchronised lacks messages; it becomes master only if the policy prefers a queue
with holes to no queue:

    ha-promote-on-failure    always (default), when-synced      the master died
    ha-promote-on-shutdown   when-synced (default), always      the master was stopped in good order

`when-synced` on failure also rules on shutdown: who will not accept loss from an accident does not
accept it from a restart either.

# When nobody may

The queue is *down*: it has no master, it keeps its data, and it says for whom it waits: the members
that were synchronised when it went down. The first of them to come back is the new master. An
operator who cannot wait may delete the queue, or force it onto a member with holes.

RabbitMQ's mirror deletes its own copy when it declines to be promoted, and chooses by age alone once
any mirror is synchronised, so that an older one with holes can win. Neither happens here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from mirrormq.metadata.view import View


class Down(NamedTuple):
    """No member may become master."""

    waits_for: tuple[str, ...]
    """Members that have everything; the first to come back will do."""


class Rules(NamedTuple):
    """What a policy says about promotion."""

    on_failure_always: bool = True
    on_shutdown_always: bool = False

    def allows_holes(self, *, shutdown: bool) -> bool:
        """May a member that is not synchronised become master?"""
        return self.on_failure_always and (self.on_shutdown_always or not shutdown)


def rules(definition: Mapping[str, object]) -> Rules:
    """From an effective policy."""
    return Rules(
        on_failure_always=definition.get("ha-promote-on-failure", "always") == "always",
        on_shutdown_always=definition.get("ha-promote-on-shutdown", "when-synced") == "always",
    )


def without(view: View, gone: str, running: Collection[str], policy: Rules, *, shutdown: bool) -> View | Down:
    """The view after a member is gone."""
    others = tuple(name for name in view.members if name != gone)
    if gone != view.master:
        return view.with_members(others)
    alive = [name for name in others if name in running]
    synchronised = [name for name in alive if name in view.in_sync]
    candidates = synchronised or (alive if policy.allows_holes(shutdown=shutdown) else [])
    if not candidates:
        return Down(tuple(name for name in view.members if name in view.in_sync))
    return promote(view, candidates[0], [name for name in alive if name != candidates[0]])


def promote(view: View, master: str, mirrors: Collection[str]) -> View:
    """A view of a new epoch. Mirrors that were synchronised with the old master stay so, if the new
    master was; beside a master with holes nobody but itself is synchronised."""
    after = view.with_members((master, *mirrors), epoch=view.epoch + 1)._replace(joining=frozenset())
    return after if master in view.in_sync else after._replace(in_sync=frozenset({master}))
