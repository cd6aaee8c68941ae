"""Promotion: which member becomes master when the master is gone, and when no member may.

# The promise

A confirmed message is with every member of the in-sync set. So any *synchronised* member may become
master without loss. The oldest of them does: data flows in order of age, so no younger one has more.
A member that is not synchronised lacks messages; it becomes master only if the policy prefers an
incomplete queue to none:

    ha-promote-on-failure    always (default), when-synced      the master died
    ha-promote-on-shutdown   when-synced (default), always      the master was stopped in good order

`when-synced` on failure also rules on shutdown: an operator who does not accept loss from an accident
does not accept it from a restart either.

# Incarnations

A member is a node in one of its incarnations. A node that has restarted may have lost what was not on its
disk, so it counts as gone, and joins anew as the youngest; that holds also if it was back before any node
missed it.

# After a full stop

If no synchronised member is alive, a synchronised member that has come back is the next best: its disk has
every persistent message that was ever confirmed. But the disk may have been removed, damaged, or
replaced by an older copy, and the mirrors of a master drop what the master does not have. So the members
that were in sync compare first:

1.  Each returned member reports the durable position of its copy (`CopyReport`), in its new incarnation.
2.  A copy is *trusted* unless its node's journal was replaced, outdated or damaged since the member joined
    (`ring_commands.report_journal`).
3.  When every member of the in-sync set has reported, the trusted copy with the highest position is promoted.
    A copy that a power failure may have damaged comes after one that is certainly intact.
    Copies are prefixes of one history, so the highest position has all that any other has.
4.  A member that does not come back is waited for: without limit under `when-synced`, and for the configured
    time under `always`. Then the best copy that was reported is promoted, and the log names the nodes
    that were given up.
5.  If every member of the in-sync set has reported and none is trusted, former members count (below).
6.  If none of them has a trusted copy, nothing better can come. A living mirror goes first, then the copy
    with the highest position, and the log says that messages may be lost.

# Former members

Members that stop, or are lost, leave the ring one after the other, and the last one may be alone in the
in-sync set when all stop. If its disk fails then, the others still have every message that was confirmed
before they left. So the record of a queue keeps them (`copy_records.FormerMember`) with the version of the
view that they left with, until they are synchronised again, are no longer wanted, or are taken out of the
cluster.

1.  While a member of the in-sync set has a trusted copy, former members do not matter: it may have gone on
    alone and confirmed more. A member that is alone waits for no other node, but reports its journal first.
2.  Else the former members report too. The one that left last and has a trusted copy has all that any earlier
    one has, so those that left before it are not waited for. Rule 4 above bounds the wait for the others.
3.  An *outdated* copy of a member is complete up to some moment. If its position is higher than that of the
    former member it was taken later, and is promoted.
4.  An incomplete copy (the journal was replaced or damaged) is not promoted while there is a former member.
    It may hold messages that were confirmed after that one left; its node makes orphans of them
    (`copy_records.Rescue`).

# When no member may

The queue is *down*: it has no master, it keeps its data, and its record names the members that it waits
for. An operator who cannot wait may delete the queue, force it onto an incomplete member, or take the node
out of the cluster: if that leaves no complete copy to wait for, the next best one is promoted. A queue that
does not outlive its node's restart has nothing to wait for, and is lost.

RabbitMQ's mirror deletes its own copy when it declines to be promoted, and chooses by age alone once
any mirror is synchronised, so that an older, unsynchronised one can win. After a full stop it takes the node
that stopped last without looking at its disk. None of this happens here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import NamedTuple

from mirrormq.metadata.ring_view import View


class MemberStatus(Enum):
    """Status of a member since it joined the ring."""

    ALIVE = "alive"
    """Running in the same incarnation."""
    RETURNED = "returned"
    """Running in a later incarnation: it has what was on its disk."""
    GONE = "gone"
    """Not running; it may come back."""
    FORGOTTEN = "forgotten"
    """Taken out of the cluster; it will not come back."""


class CopyTrust(IntEnum):
    """Trust in a copy on disk: whether it has everything that its member had when it left the ring."""

    LOST = 0
    """Journal was replaced or damaged since."""
    OUTDATED = 1
    """Journal went back to an earlier state: messages are missing at its end only."""
    DOUBTFUL = 2
    """Power failure left bytes that recovery cannot distinguish from damage of synced data."""
    INTACT = 3

    @property
    def suffices(self) -> bool:
        """Return whether the copy counts as complete."""
        return self >= CopyTrust.DOUBTFUL


class StoredCopy(NamedTuple):
    """Copy on the disk of a returned member. Compares by trust first, then by durable position."""

    trust: CopyTrust
    position: tuple[int, int, int]


class FormerCopy(NamedTuple):
    """Copy of a node that was synchronised once and has left the in-sync set."""

    version: int
    """Version of the view that the node left with."""
    incarnation: int
    """Incarnation that was synchronised."""
    copy: StoredCopy | None
    """Copy as the node's present incarnation has reported it; None: not reported."""


class QueueDown(NamedTuple):
    """Result: no member may become master."""

    waits_for: tuple[str, ...]
    """Members that have everything and have not reported their copies yet."""
    view: View
    """Ring that stays meanwhile, without the members that will not come back."""


class QueueLost(NamedTuple):
    """Result: no node has messages of the queue, and none will have."""


class PromotionRules(NamedTuple):
    """Promotion rules of a policy."""

    on_failure_always: bool = True
    on_shutdown_always: bool = False

    def allows_unsynchronised(self, *, shutdown: bool) -> bool:
        """Return whether a member that is not synchronised may become master."""
        return self.on_failure_always and (self.on_shutdown_always or not shutdown)


def rules(definition: Mapping[str, object]) -> PromotionRules:
    """Return the promotion rules of an effective policy."""
    return PromotionRules(
        on_failure_always=definition.get("ha-promote-on-failure", "always") == "always",
        on_shutdown_always=definition.get("ha-promote-on-shutdown", "when-synced") == "always",
    )


def settle(
    view: View,
    statuses: Mapping[str, MemberStatus],
    policy: PromotionRules,
    *,
    shutdown: bool,
    survives: bool = True,
    copies: Mapping[str, StoredCopy] | None = None,
    waited: bool = False,
    former: Mapping[str, FormerCopy] | None = None,
) -> View | QueueDown | QueueLost:
    """Return the view that follows from the statuses of its members; `view` itself if all are alive.

    `shutdown`: the master was stopped in good order. `survives`: the queue outlives its nodes' restarts.
    `copies`: reports of returned members. `waited`: the promotion timeout for missing members is over.
    `former`: former members that belong to the cluster.
    The caller fills in the incarnations of members that joined anew.
    """
    if all(statuses[name] is MemberStatus.ALIVE for name in view.members):
        return view
    if statuses[view.master] is MemberStatus.ALIVE:
        return _gathered(view, view.master, statuses, view.epoch)
    former = former or {}
    candidates = _candidates(view, statuses)
    if not candidates:
        return _recall(view, former) if former and survives else QueueLost()
    alive = [name for name in view.members if statuses[name] is MemberStatus.ALIVE]
    for name in alive:
        if name in candidates:
            return promote(view, name, statuses)
    if (
        statuses[candidates[0]] is MemberStatus.RETURNED
        and view.members == candidates[:1]
        and survives
        and not former
    ):
        return promote(view, candidates[0], statuses)  # no other node holds a copy that could be better
    unsynchronised_allowed = policy.allows_unsynchronised(shutdown=shutdown)
    if survives and any(statuses[name] is MemberStatus.RETURNED for name in candidates):
        reported = {at: copy for at, copy in (copies or {}).items() if statuses[at] is MemberStatus.RETURNED}
        returned = [name for name in view.members if statuses[name] is MemberStatus.RETURNED]
        timed_out = waited and unsynchronised_allowed
        awaited = () if timed_out else tuple(name for name in candidates if name not in reported)
        chosen = awaited or _compare(view, candidates, alive, returned, reported, former, timed_out)
        if isinstance(chosen, str):
            return promote(view, chosen, statuses)
        return QueueDown(chosen, _waiting(view, candidates, statuses))
    if alive and unsynchronised_allowed:
        return promote(view, _last_synchronised(alive, former), statuses)
    return QueueDown(candidates, _waiting(view, candidates, statuses)) if survives else QueueLost()


def _last_synchronised(alive: list[str], former: Mapping[str, FormerCopy]) -> str:
    """Return the living unsynchronised mirror that was synchronised last."""
    return max(alive, key=lambda name: former[name].version if name in former else -1)


def _compare(
    view: View,
    candidates: tuple[str, ...],
    alive: list[str],
    returned: list[str],
    reported: Mapping[str, StoredCopy],
    former: Mapping[str, FormerCopy],
    timed_out: bool,
) -> str | tuple[str, ...]:
    """Return the node to promote after a full stop, or the nodes whose reports could still change the
    choice."""
    trusted = [name for name in candidates if name in reported and reported[name].trust.suffices]
    if trusted:
        return max(trusted, key=lambda name: (reported[name], -view.members.index(name)))
    chosen = _compare_former(
        {name: reported[name] for name in candidates if name in reported}, former, timed_out
    )
    if chosen is not None:
        return chosen
    # No complete copy is left. An unsynchronised one may now hold more than a damaged one.
    unreported = tuple(name for name in returned if name not in reported)
    if unreported:
        return unreported
    if alive:
        return alive[0]
    return max(returned, key=lambda name: (reported[name], -view.members.index(name)))


def _compare_former(
    untrusted: Mapping[str, StoredCopy], former: Mapping[str, FormerCopy], timed_out: bool
) -> str | tuple[str, ...] | None:
    """Return the node to promote if the members that were in sync have untrusted copies only; None: no former
    member has a trusted one."""
    trusted = {name: one for name, one in former.items() if one.copy is not None and one.copy.trust.suffices}
    best = max(trusted, key=lambda name: (trusted[name].version, trusted[name].copy), default="")
    missing = tuple(
        name
        for name, one in former.items()
        if one.copy is None and (not best or one.version >= trusted[best].version)
    )
    if missing and not timed_out:
        return missing
    if not best:
        return None
    # An older state of a member that was the last one to leave may be later than the former member's copy.
    later = {
        name: copy
        for name, copy in untrusted.items()
        if copy.trust is CopyTrust.OUTDATED and copy.position > _position(trusted[best])
    }
    return max(later, key=lambda name: later[name].position, default=best)


def _position(former: FormerCopy) -> tuple[int, int, int]:
    return former.copy.position if former.copy is not None else (0, 0, 0)


def _recall(view: View, former: Mapping[str, FormerCopy]) -> QueueDown:
    """Return the ring of former members for a queue whose members were all taken out of the cluster. Those
    that left last count as in sync."""
    members = tuple(sorted(former, key=lambda name: (-former[name].version, name)))
    last = frozenset(name for name in members if former[name].version == former[members[0]].version)
    after = view.with_members(members, epoch=view.epoch + 1)
    incarnations = frozenset((name, former[name].incarnation) for name in members if former[name].incarnation)
    waiting = after._replace(
        in_sync=last, joining=frozenset(), incarnations=incarnations, version=view.version
    )
    return QueueDown(tuple(name for name in members if name in last), waiting)


def _candidates(view: View, statuses: Mapping[str, MemberStatus]) -> tuple[str, ...]:
    """Return the members that can restore the queue: the synchronised ones or, if all of them were taken out
    of the cluster, every member with messages."""
    left = tuple(name for name in view.members if statuses[name] is not MemberStatus.FORGOTTEN)
    return tuple(name for name in left if name in view.in_sync) or left


def _waiting(view: View, candidates: tuple[str, ...], statuses: Mapping[str, MemberStatus]) -> View:
    """Return the ring of a down queue. It omits members that left the cluster: a later node of that name is
    another node."""
    left = tuple(name for name in view.members if statuses[name] is not MemberStatus.FORGOTTEN)
    if left == view.members:
        return view
    members = (
        left
        if left[0] == view.master
        else candidates + tuple(name for name in left if name not in candidates)
    )
    epoch = view.epoch + (members[0] != view.master)
    return view.with_members(members, epoch=epoch)._replace(
        in_sync=frozenset(candidates), joining=frozenset()
    )


def promote(view: View, master: str, statuses: Mapping[str, MemberStatus]) -> View:
    """Return a view of a new epoch. Mirrors stay synchronised if the new master was synchronised too and has
    lost nothing since; otherwise only the new master is."""
    after = _gathered(view, master, statuses, view.epoch + 1)
    complete = statuses.get(master) is MemberStatus.ALIVE and master in view.in_sync
    if complete and not after.joining:
        return after
    in_sync = after.in_sync if complete else frozenset({master})
    return after._replace(in_sync=in_sync, joining=frozenset())


def _gathered(view: View, master: str, statuses: Mapping[str, MemberStatus], epoch: int) -> View:
    """Return the next view: gone members leave, returned members join anew as the youngest, not
    synchronised."""
    alive = tuple(name for name in view.members if statuses[name] is MemberStatus.ALIVE)
    returned = tuple(name for name in view.members if statuses[name] is MemberStatus.RETURNED)
    others = tuple(name for name in alive + returned if name != master)
    if not returned:
        return view.with_members((master, *others), epoch=epoch)
    without = view.with_members(alive)._replace(version=view.version)
    return without.with_members((master, *others), epoch=epoch)
