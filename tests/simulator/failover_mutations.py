"""Mutations of what makes `ha-redeliver: lost` safe (`queues.kept_deliveries`), for test_mutations."""

from __future__ import annotations

import pytest

from mirrormq.queues.backing import ANY_SEQUENCE
from mirrormq.queues.claims import NOTHING
from mirrormq.queues.kept_deliveries import KeptDeliveries
from mirrormq.queues.queue import Queue
from mirrormq.remote.peer_session import PeerSession
from mirrormq.remote.remote_queue import RemoteQueue
from mirrormq.remote.retained import RetainedDeliveries


def deliver_before_the_ring_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message is delivered at once; if the ring does not get it, it is published again."""
    monkeypatch.setattr(KeptDeliveries, "published", lambda self, sequence: None)
    monkeypatch.setattr(KeptDeliveries, "up_to", property(lambda self: 0 if self.awaiting else ANY_SEQUENCE))


def deliver_before_nodes_have_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new master does not wait for the claims of living nodes."""
    monkeypatch.setattr(KeptDeliveries, "await_claims", lambda self, holders: None)


def claim_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node does not say what its clients hold."""
    monkeypatch.setattr(RetainedDeliveries, "claim", lambda self, unsent: NOTHING)


def forget_what_was_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node does not keep acknowledgements until the ring has them."""
    monkeypatch.setattr(RetainedDeliveries, "sent", lambda self, number, settlements: None)


def forget_what_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the deliveries of clients of a lost node."""
    monkeypatch.setattr(PeerSession, "lost", PeerSession.end)


def keep_settlements_from_the_next_master(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore settlements of deliveries of the previous master."""
    monkeypatch.setattr(RemoteQueue, "settle_kept", lambda self, settlement, sequences: None)
    monkeypatch.setattr(Queue, "settle_kept", lambda self, settlement, sequences: None)


FAILOVER_MUTATIONS = (
    (deliver_before_the_ring_has_it, "HeldIsNotRedelivered"),
    (deliver_before_nodes_have_claimed, "HeldIsNotRedelivered"),
    (claim_nothing, "HeldIsNotRedelivered"),
    (forget_what_was_settled, "HeldIsNotRedelivered"),
    (forget_what_was_lost, "NothingIsStranded"),
    (keep_settlements_from_the_next_master, "NothingIsStranded"),
)
"""Mutation → checker that finds it."""
