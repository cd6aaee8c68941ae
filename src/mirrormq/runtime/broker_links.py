"""Adapter between peer links and the broker: link events are input of a turn, like bytes of clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.peers.link_loss import LinkLoss
from mirrormq.remote.remote_messages import RemoteMessage
from mirrormq.replication.ring_messages import RingBatch

if TYPE_CHECKING:
    from mirrormq.runtime.application import Application


class BrokerLinks:
    """Passes link events to the broker. Implements `cluster_node.LinkFollower`."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._broker = application.broker

    def link_up(self, peer: str, session: int) -> None:
        """Report to the broker that the link to `peer` came up."""
        self._application.node.timeline.link_up(peer)
        self._broker.link_up(peer, session)
        self._application.after_waiting()

    def link_down(self, peer: str, loss: LinkLoss) -> None:
        """Report to the broker that the link to `peer` went down."""
        self._application.node.timeline.link_down(peer, loss.silent_ms)
        self._broker.link_down(peer)
        self._application.after_waiting()

    def link_message(self, peer: str, message: RingBatch | RemoteMessage) -> None:
        """Pass a queue message to the broker. Its effects are carried out at the end of the turn. A report
        that completes no operation has none, and wakes nothing."""
        application = self._application
        application.read_clock()
        try:
            if not self._broker.link_message(peer, message):
                return
        except Exception as error:
            application.fault(None, error)
        application.end_turn_soon()

    def link_relieved(self, peer: str) -> None:
        """Report to the broker that the link to `peer` is no longer congested."""
        self._broker.link_relieved(peer)
        self._application.after_waiting()

    def peer_alarms(self, alarms: dict[str, tuple[str, ...]]) -> None:
        """Block publishers while a peer has an alarm."""
        self._application.apply_peer_alarms(alarms)
