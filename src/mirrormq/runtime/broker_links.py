"""Between a node's links and its broker: what comes over them is input of a turn, as clients' bytes are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mirrormq.cluster.controller import SILENT_PEER
from mirrormq.remote.remote_messages import RemoteMessage
from mirrormq.replication.ring_messages import RingBatch

if TYPE_CHECKING:
    from mirrormq.runtime.application import Application


_SILENCE = re.compile(rf"{SILENT_PEER} for ([\d.]+) s")


def silence_ms(reason: str) -> int:
    """How long nothing had been heard of a node when it was given up, if that was why."""
    found = _SILENCE.match(reason)
    return int(float(found[1]) * 1000) if found else 0


class BrokerLinks:
    """Implements `cluster_node.LinkFollower`."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._broker = application.broker

    def link_up(self, peer: str, session: int) -> None:
        """There is a link to a node."""
        self._application.node.timeline.link_up(peer)
        self._broker.link_up(peer, session)
        self._application.after_waiting()

    def link_down(self, peer: str, reason: str) -> None:
        """It is gone."""
        self._application.node.timeline.link_down(peer, silence_ms(reason))
        self._broker.link_down(peer, reason)
        self._application.after_waiting()

    def link_message(self, peer: str, message: RingBatch | RemoteMessage) -> None:
        """A message about queues; what comes of it is done at the end of the turn."""
        application = self._application
        application.read_clock()
        try:
            self._broker.link_message(peer, message)
        except Exception as error:
            application.fault(None, error)
        application.end_turn_soon()

    def link_relieved(self, peer: str) -> None:
        """There is room again."""
        self._broker.link_relieved(peer)
        self._application.after_waiting()
