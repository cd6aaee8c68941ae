"""A consumer whose client is connected to another node, as the queue's master sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.queues.consumer_turns import ConsumerDescription
from mirrormq.queues.message import Message
from mirrormq.remote import remote_limits
from mirrormq.remote.publish_codec import pack_deliveries
from mirrormq.remote.remote_messages import Activated, Credit, Deliver, Subscribe

if TYPE_CHECKING:
    from mirrormq.remote.peer_session import PeerSession


class RemoteConsumer:
    """Takes what its node has granted, as long as the link can carry it."""

    no_ack = False
    """Its node acknowledges what its client need not: see `remote.deliveries`."""

    def __init__(self, client: PeerSession, subscribe: Subscribe) -> None:
        self.key = subscribe.question
        self.holder = client.holder
        """The node, with its incarnation, that has the client."""
        self.priority = subscribe.priority
        self.exclusive = subscribe.exclusive
        self.waiting = False
        self._client = client
        self._description = subscribe.description
        self._granted = subscribe.granted
        self._sent = 0
        self._sent_bytes = 0
        self._taken_bytes = 0

    def room(self) -> int:
        """How many messages it can take now."""
        if self._sent_bytes - self._taken_bytes > remote_limits.DELIVERED_BYTES_MAX:
            return 0
        if not self._client.stream.writable:
            self._client.stream.when_writable(self._client.relieved)
            return 0
        return self._granted - self._sent

    def credit(self, item: Credit) -> None:
        """Its node grants more."""
        self._granted = item.granted
        self._taken_bytes = item.taken_bytes

    def deliver(self, messages: list[Message]) -> None:
        """Send messages to its node."""
        self._sent += len(messages)
        client = self._client
        item = Deliver(client.queue_id, client.epoch, self.key, pack_deliveries(messages))
        size_bytes = sum([len(content) for run in item.runs for content in run.contents])
        self._sent_bytes += size_bytes
        client.hold(messages)
        client.stream.put_late(item, size_bytes + remote_limits.SMALL_BYTES)

    def cancelled(self) -> None:
        """The queue is gone: its node knows that from the metadata."""

    def activated(self, active: bool) -> None:
        """Its node would like to know, for listings."""
        self._client.stream.put_late(Activated(self._client.queue_id, self._client.epoch, self.key, active))

    def describe(self) -> ConsumerDescription:
        """Who it is."""
        return self._description
