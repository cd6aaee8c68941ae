"""Versions of metadata commands: a command is written only if every member of the cluster knows it.

A node that cannot decode a committed command must stop, because it would diverge from the others. During a
rolling upgrade the members have two versions, so commands of the newer one wait for the last old member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.errors import ResourceError
from mirrormq.metadata import commands as c
from mirrormq.protocol_version import PROTOCOL_VERSION, PROTOCOL_VERSION_OLDEST

if TYPE_CHECKING:
    from mirrormq.metadata.state import MetadataState

INTRODUCED: dict[type[c.Command], int] = {
    c.AssignLinks: 3,
    c.RestartLink: 3,
    c.FinishLink: 3,
    c.BeginLogIndexes: 3,
    c.EndWrite: 3,
}
"""Protocol version that all members must have for a command, if it is later than the oldest version."""

LOG_INDEXES_SINCE = 3
"""Protocol version that all members must have before records get log indexes. The snapshot of an older member
lacks them, so the members would have different metadata."""

PRODUCERS_KEPT_SINCE = 3
"""Protocol version that all members must have before a full record of producers refuses new ones. Older
members forget the least recently used ones."""


class MembersTooOld(ResourceError):
    """Command that a member of the cluster cannot decode yet."""


def lowest_version(state: MetadataState) -> int:
    """Return the lowest protocol version of the cluster's members."""
    return min((node.version for node in state.nodes.values()), default=PROTOCOL_VERSION)


def knows(state: MetadataState, kind: type[c.Command]) -> bool:
    """Return whether every member of the cluster knows a command."""
    needed = INTRODUCED.get(kind, PROTOCOL_VERSION_OLDEST)
    return needed <= PROTOCOL_VERSION_OLDEST or needed <= lowest_version(state)


def knows_log_indexes(state: MetadataState) -> bool:
    """Return whether every member of the cluster records log indexes (`metadata.log_indexes`)."""
    return lowest_version(state) >= LOG_INDEXES_SINCE


def keeps_producers(state: MetadataState) -> bool:
    """Return whether no member forgets a producer that was used lately (`metadata.producer_commands`)."""
    return lowest_version(state) >= PRODUCERS_KEPT_SINCE


def check(state: MetadataState, command: c.Command) -> None:
    """Raise MembersTooOld if a member does not know the command."""
    if knows(state, type(command)):
        return
    needed = INTRODUCED[type(command)]
    older = sorted(node.name for node in state.nodes.values() if node.version < needed)
    raise MembersTooOld(
        f"this change needs version {needed} of the cluster protocol on every node; "
        f"upgrade {', '.join(older)} first"
    )
