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

# Lives

A member is a node in one of its lives. One that has restarted may have lost what was not on its disk, so
it counts as gone, and joins anew as the youngest; that holds also if it was back before anybody missed
it. If no synchronised member is alive, one that *was* synchronised and has come back is the next best: it
has everything persistent that was ever confirmed. So a cluster that lost its power as a whole goes on
from whichever complete copy comes back first, and one that was stopped node by node from the last.

# When nobody may

The queue is *down*: it has no master, it keeps its data, and it says for whom it waits: the members
that were synchronised when it went down. The first of them to come back is the new master. An
operator who cannot wait may delete the queue, force it onto a member with holes, or take the node out of
the cluster: if that leaves no complete copy to wait for, the next best one has to do. A queue that does
not outlive its node's restart has nothing to wait for, and is lost.

RabbitMQ's mirror deletes its own copy when it declines to be promoted, and chooses by age alone once
any mirror is synchronised, so that an older one with holes can win. Neither happens here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from mirrormq.metadata.view import View


class Fate(Enum):
    """What has become of a member since it joined the ring."""

    ALIVE = "alive"
    """The same life."""
    RETURNED = "returned"
    """A later life: it has what was on its disk."""
    GONE = "gone"
    """No life now; it may come back."""
    FORGOTTEN = "forgotten"
    """It was taken out of the cluster, and will not come back."""


class Down(NamedTuple):
    """No member may become master."""

    waits_for: tuple[str, ...]
    """Members that have everything; the first to come back will do."""
    view: View
    """The ring as it stays meanwhile: the same, less those who will not come back."""


class Lost(NamedTuple):
    """Nobody has anything of the queue, and nobody ever will."""


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


def settle(
    view: View, fates: Mapping[str, Fate], policy: Rules, *, shutdown: bool, survives: bool = True
) -> View | Down | Lost:
    """The view after what has become of its members; `view` itself if all are well.

    `shutdown`: the master was stopped in good order. `survives`: the queue outlives its nodes' restarts.
    The lives of members that joined anew are for the caller to fill in.
    """
    if all(fates[name] is Fate.ALIVE for name in view.members):
        return view
    if fates[view.master] is Fate.ALIVE:
        return _gathered(view, view.master, fates, view.epoch)
    hopes = _hopes(view, fates)
    if not hopes:
        return Lost()
    alive = [name for name in view.members if fates[name] is Fate.ALIVE]
    complete = [name for name in alive if name in hopes]
    stored = [name for name in hopes if survives and fates[name] is Fate.RETURNED]
    holed = alive if policy.allows_holes(shutdown=shutdown) else []
    for candidates in (complete, stored, holed):
        if candidates:
            return promote(view, candidates[0], fates)
    return Down(hopes, _waiting(view, hopes, fates)) if survives else Lost()


def _hopes(view: View, fates: Mapping[str, Fate]) -> tuple[str, ...]:
    """The members from which the queue can be had again: those with everything or, if all of them were
    taken out of the cluster, whoever has something."""
    left = tuple(name for name in view.members if fates[name] is not Fate.FORGOTTEN)
    return tuple(name for name in left if name in view.in_sync) or left


def _waiting(view: View, hopes: tuple[str, ...], fates: Mapping[str, Fate]) -> View:
    """The ring of a queue that is down. Of those who left the cluster nothing is remembered: who comes with
    such a name later is somebody else."""
    left = tuple(name for name in view.members if fates[name] is not Fate.FORGOTTEN)
    if left == view.members:
        return view
    members = left if left[0] == view.master else hopes + tuple(name for name in left if name not in hopes)
    epoch = view.epoch + (members[0] != view.master)
    return view.with_members(members, epoch=epoch)._replace(in_sync=frozenset(hopes), joining=frozenset())


def promote(view: View, master: str, fates: Mapping[str, Fate]) -> View:
    """A view of a new epoch. Mirrors that were synchronised with the old master stay so, if the new
    master was and has lost nothing since; beside any other master nobody but itself is synchronised."""
    after = _gathered(view, master, fates, view.epoch + 1)
    complete = fates[master] is Fate.ALIVE and master in view.in_sync
    if complete and not after.joining:
        return after
    in_sync = after.in_sync if complete else frozenset({master})
    return after._replace(in_sync=in_sync, joining=frozenset())


def _gathered(view: View, master: str, fates: Mapping[str, Fate], epoch: int) -> View:
    """The next view: the gone leave, the returned join anew as the youngest and with no standing."""
    alive = tuple(name for name in view.members if fates[name] is Fate.ALIVE)
    returned = tuple(name for name in view.members if fates[name] is Fate.RETURNED)
    others = tuple(name for name in alive + returned if name != master)
    if not returned:
        return view.with_members((master, *others), epoch=epoch)
    without = view.with_members(alive)._replace(version=view.version)
    return without.with_members((master, *others), epoch=epoch)
