"""Lease owners: one client per lease at a time, and refusals after a lease ended with unsettled messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.errors import NotFound, PreconditionFailed
from mirrormq.metadata import records
from mirrormq.ranges import error_reasons, range_limits, range_protocol
from mirrormq.ranges.range_request import NUMBER_MAX, RequestValues

if TYPE_CHECKING:
    from mirrormq.clock import Clock
    from mirrormq.metadata.state import MetadataState


class LeaseOwners:
    """Client that uses each lease of this node's queues. A new master learns them from their requests."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._owners: dict[records.LeaseKey, str] = {}

    def check(self, key: records.LeaseKey, values: RequestValues, used_ms: int | None, *, busy: bool) -> None:
        """Refuse a second owner while the first one uses the lease: each would get the other's takes.

        `used_ms` is the time of the lease's last use, None if it does not exist; `busy` means that a take
        is in progress.
        """
        if not values.has("owner"):
            return
        owner = values.text("owner")
        silent = used_ms is None or self._clock.now_ms - used_ms >= range_limits.LEASE_OWNER_MS
        if self._owners.get(key, owner) != owner and (busy or not silent):
            raise PreconditionFailed(
                f"lease '{key[1]}' is in use by another client", reason=error_reasons.LEASE_IN_USE
            )
        if values.text("ask") == range_protocol.TAKE or used_ms is not None:
            self._owners[key] = owner

    def has_owner(self, key: records.LeaseKey) -> bool:
        """Return whether the lease's last client named itself."""
        return key in self._owners

    def forget(self, key: records.LeaseKey) -> None:
        """Forget the owner of a lease that has ended, or whose first take found nothing."""
        self._owners.pop(key, None)


def holds_nothing(state: MetadataState, record: records.Queue, name: str, values: RequestValues) -> bool:
    """Return whether the lease has ended with nothing left to settle. Raise NotFound if messages were left:
    they are in the queue again, and the client must be notified because it has processed them."""
    lease = state.leases.get((record.queue_id, name))
    if lease is not None and not lease.ended:
        return False
    if lease is not None and 0 < lease.lost_from <= values.number("number", NUMBER_MAX):
        raise NotFound(
            f"lease '{name}' of queue '{record.name}' in vhost '{record.vhost}' was released or has expired,"
            " and its messages are in the queue again",
            reason=error_reasons.LEASE_ENDED,
        )
    return True
