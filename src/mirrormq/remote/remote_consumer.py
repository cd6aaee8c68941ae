"""Remote consumer: a consumer whose client is connected to another node, on the queue's master."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.peers.peer_limits import SMALL_BYTES
from mirrormq.queues.consumer_turns import ConsumerDescription
from mirrormq.queues.message import Message
from mirrormq.remote.publish_codec import pack_deliveries
from mirrormq.remote.remote_messages import Activated, Credit, Deliver, Subscribe

if TYPE_CHECKING:
    from mirrormq.remote.peer_session import PeerSession


class RemoteConsumer:
    """Consumer that accepts as many messages as its node has granted and the link can carry."""

    no_ack = False
    """Always False: the client's node acknowledges on behalf of `no-ack` consumers (`remote.deliveries`)."""

    def __init__(self, client: PeerSession, subscribe: Subscribe) -> None:
        self.key = subscribe.request_id
        self.holder = client.holder
        """Node of the client, with its incarnation."""
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
        """Return the number of messages that may be delivered now."""
        if self._sent_bytes - self._taken_bytes > self._client.limits.delivered_bytes_max:
            return 0
        if not self._client.stream.writable:
            self._client.stream.when_writable(self._client.relieved)
            return 0
        return self._granted - self._sent

    def credit(self, item: Credit) -> None:
        """Apply the credit that its node grants."""
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
        client.stream.put_late(item, size_bytes + SMALL_BYTES)

    def cancelled(self) -> None:
        """Do nothing: its node learns of the queue's deletion from the metadata."""

    def activated(self, active: bool) -> None:
        """Report to its node whether it is the single active consumer, for listings."""
        self._client.stream.put_late(Activated(self._client.queue_id, self._client.epoch, self.key, active))

    def describe(self) -> ConsumerDescription:
        """Return the description of the consumer, for listings."""
        return self._description
