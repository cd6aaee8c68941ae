"""The publishing side of a channel: from basic.publish to queues, returns and confirms.

The road of a message whose publish payload and properties equal the previous one's is short: its
envelope and its queues are remembered, and a run of such messages is appended to each queue in one
call. What is remembered holds as long as the vhost's routes and the user's rights have not changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from mirrormq import limits
from mirrormq.broker import direct_reply_to, sender_selected_routing
from mirrormq.channels.confirm_ledger import ConfirmLedger
from mirrormq.channels.unacked import Delivery
from mirrormq.errors import AccessRefused, NotImplementedByBroker, PreconditionFailed
from mirrormq.queues.envelope import ExpirationInvalid, make_envelope, parse_expiration
from mirrormq.queues.message import NEVER, Envelope, Message
from mirrormq.queues.publish_ids import PRODUCER_HEADER, publish_id_of
from mirrormq.queues.publish_order_guard import PublishOrderGuard
from mirrormq.queues.queue_interface import Publisher, QueueInterface
from mirrormq.ranges import range_protocol
from mirrormq.wire.fields import Table
from mirrormq.wire.methods import decode_basic_publish, encode_basic_return
from mirrormq.wire.properties import decode_properties, encode_properties, scan_properties

if TYPE_CHECKING:
    from mirrormq.channels.channel import Channel

NO_ROUTE = 312


class Target(NamedTuple):
    """Where one basic.publish payload leads, checked once."""

    exchange: str
    routing_key: str
    mandatory: bool
    versions: tuple[int, int]


class Publishing:
    """What a channel knows of its own publishes."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.confirms: ConfirmLedger | None = None
        self.transaction: list[tuple[Envelope, tuple[QueueInterface, ...], list[bytes]]] | None = None
        self._transaction_bytes = 0
        self.gate = PublishOrderGuard()
        self.settlements: list[tuple[str, list[Delivery]]] = []
        """What the open transaction has acknowledged or rejected."""
        self._targets: dict[bytes, Target] = {}
        self._last_publish = b""
        self._last_properties = b""
        self._last_versions = (-1, -1)
        self._last_envelope: Envelope | None = None
        self._last_queues: tuple[QueueInterface, ...] = ()

    def publish(self, publish: bytes, properties: bytes, contents: list[bytes]) -> None:
        """Messages that share a publish payload and properties; each content is `frames`."""
        channel = self.channel
        versions = channel.vhost.versions()
        if (
            publish != self._last_publish
            or properties != self._last_properties
            or versions != self._last_versions
        ):
            target = self.target(publish, versions)
            if len(contents) > 1 and not channel.vhost.routes_repeat(target.exchange):
                for content in contents:
                    self.publish(publish, properties, [content])
                return
            contents = self._look_up(target, publish, properties, contents)
        envelope = self._last_envelope
        queues = self._last_queues
        assert envelope is not None
        if channel.traced:
            channel.trace_publishes(envelope, queues, contents)
        if self.transaction is not None:
            self._keep_for_commit(envelope, queues, contents)
        elif self.confirms is None:
            self.hand_over(envelope, queues, contents, None, 0)
        else:
            first = self.confirms.take_numbers(len(contents), len(queues))
            if envelope.producer_ids is None or self.may_pass(envelope.producer_ids, first, contents, queues):
                self.hand_over(envelope, queues, contents, channel, first)
            if envelope.producer_ids is not None and self.confirms.lowest_refused(first) is not None:
                self.gate.close(envelope.producer_ids)
            if not queues:
                channel.has_confirms()

    def may_pass(
        self, producer_ids: tuple[str, int], first: int, messages: Sequence[object],
        queues: tuple[QueueInterface, ...],
    ) -> bool:  # fmt: skip
        """False: one before it was refused (`queues.gates`), and so are these."""
        if not self.gate.stops(producer_ids):
            return True
        for number in range(first, first + len(messages)):
            for _ in queues:
                self.channel.refused(number)
        return False

    def _keep_for_commit(
        self, envelope: Envelope, queues: tuple[QueueInterface, ...], contents: list[bytes]
    ) -> None:
        assert self.transaction is not None
        if not self.transaction:
            self._transaction_bytes = 0
        self._transaction_bytes += sum(map(len, contents)) + len(contents) * limits.MESSAGE_OVERHEAD_BYTES
        if self._transaction_bytes > limits.TRANSACTION_BYTES_MAX:
            self.transaction.clear()
            most = limits.TRANSACTION_BYTES_MAX
            raise PreconditionFailed(f"a transaction may hold {most} bytes before its commit")
        self.transaction.append((envelope, queues, contents))

    def hand_over(
        self, envelope: Envelope, queues: tuple[QueueInterface, ...], contents: list[bytes],
        publisher: Publisher | None, first: int,
    ) -> None:  # fmt: skip
        """Append the messages to their queues, or return them."""
        self.count(envelope.exchange, len(contents), queues, first)
        if not queues:
            self._lead_nowhere(envelope, contents)
        elif len(queues) > 1:
            with self.channel.vhost.dead_letters_later():
                self._append(envelope, queues, contents, publisher, first)
        else:
            self._append(envelope, queues, contents, publisher, first)

    def count(self, exchange: str, count: int, queues: tuple[QueueInterface, ...], first: int) -> None:
        """So many messages go through an exchange to these queues; `first` is the confirm of the first."""
        channel = self.channel
        channel.counters.published += count
        channel.counters.routed += count * len(queues)
        divided = channel.divided
        divided.exchange(exchange).published += count
        for queue in queues:
            divided.routed(exchange, queue.name, count)
        if self.confirms is not None:
            divided.numbered(first, exchange)
        passed = channel.vhost.router.exchanges.get(exchange)
        if passed is not None:
            passed.published_in += count
            passed.published_out += count * len(queues)

    def _lead_nowhere(self, envelope: Envelope, contents: list[bytes]) -> None:
        if _is_question(envelope.exchange, envelope.routing_key):
            self.channel.broker.range_requests.asked(self.channel, contents)
            return
        if not envelope.exchange:
            self.channel.broker.deliver_reply(envelope.routing_key, envelope, contents)
        if envelope.mandatory:
            self.channel.counters.returned += len(contents)
            self.channel.divided.exchange(envelope.exchange).returned += len(contents)
            self._return(envelope, contents)
        else:
            self.channel.counters.dropped += len(contents)
            self.channel.divided.exchange(envelope.exchange).dropped += len(contents)

    def _append(
        self, envelope: Envelope, queues: tuple[QueueInterface, ...], contents: list[bytes],
        publisher: Publisher | None, first: int,
    ) -> None:  # fmt: skip
        overhead = len(contents[0]) - int.from_bytes(contents[0][11:19], "big")
        for queue in queues:
            messages = [Message(envelope, content, NEVER, len(content) - overhead) for content in contents]
            self.append(queue, messages, publisher, first)

    def append(
        self, queue: QueueInterface, messages: list[Message], publisher: Publisher | None, first: int
    ) -> None:
        """Append messages to a queue, and rest a while if it has enough of them."""
        queue.publish(messages, publisher, first)
        if queue.congested:
            size_bytes = sum([message.body_size for message in messages])
            self.channel.connection.congested_by(queue, len(messages), size_bytes)

    def _return(self, envelope: Envelope, contents: list[bytes]) -> None:
        method = encode_basic_return(NO_ROUTE, "NO_ROUTE", envelope.exchange, envelope.routing_key)
        for content in contents:
            self.channel.send_content(method, content)

    def _look_up(
        self, target: Target, publish: bytes, properties: bytes, contents: list[bytes]
    ) -> list[bytes]:
        """Find envelope and queues, and remember them if the next message may use them too."""
        channel = self.channel
        channel.check_topic(target.exchange, target.routing_key, "write")
        headers_at = self.checked(properties)
        envelope = make_envelope(publish, properties)
        if direct_reply_to.QUEUE_NAME_BYTES in properties:
            envelope, contents = direct_reply_to.expand(channel, envelope, contents)
        headers: Table = {}
        if headers_at >= 0:
            headers = decode_properties(properties, 0).headers or {}
        envelope, queues, contents = channel.vhost.route(envelope, headers, contents)
        if PRODUCER_HEADER in headers:
            envelope.producer_ids = publish_id_of(headers)
        self._last_envelope, self._last_queues = envelope, queues
        unchanged = envelope.properties is properties and channel.vhost.routes_repeat(target.exchange)
        self._last_publish = publish if unchanged else b""
        self._last_properties = properties
        self._last_versions = target.versions
        return contents

    def checked(self, properties: bytes) -> int:
        """Where the headers are, or -1. Refuses what must not be claimed, in RabbitMQ's order: the reply's
        address, the user, the expiration, the keys in headers, the delivery mode."""
        try:
            _, _, expiration, headers_at, user_id = scan_properties(properties)
        except PreconditionFailed:
            claimed = decode_properties(properties, 0)._replace(delivery_mode=None)
            self.checked(encode_properties(claimed))
            for header in ("CC", "BCC"):
                sender_selected_routing.header_keys(claimed.headers or {}, header)
            raise
        if direct_reply_to.QUEUE_NAME_BYTES in properties:
            direct_reply_to.check(self.channel, properties)
        if user_id is not None:
            self.channel.check_user_id(user_id.decode("utf-8", "surrogateescape"))
        try:
            if expiration is not None:
                parse_expiration(expiration)
        except ExpirationInvalid as invalid:
            raise PreconditionFailed(str(invalid)) from None
        return headers_at

    def target(self, publish: bytes, versions: tuple[int, int]) -> Target:
        """Where a basic.publish payload leads; checked when it is new or something has changed."""
        target = self._targets.get(publish)
        if target is None or target.versions != versions:
            target = self._check_target(publish, versions)
        return target

    def _check_target(self, publish: bytes, versions: tuple[int, int]) -> Target:
        method = decode_basic_publish(publish)
        channel = self.channel
        if method.immediate:
            raise NotImplementedByBroker("immediate=true")
        if not _is_question(method.exchange, method.routing_key):
            channel.check_permission("exchange", method.exchange, "write")
        record = channel.vhost.exchange_record(method.exchange)
        if record.internal:
            raise AccessRefused(
                f"cannot publish to internal exchange '{method.exchange}' in vhost '{channel.vhost.name}'"
            )
        target = Target(method.exchange, method.routing_key, method.mandatory, versions)
        if len(self._targets) >= limits.PUBLISH_TARGETS_CACHED:
            self._targets.clear()
        self._targets[publish] = target
        return target


def _is_question(exchange: str, routing_key: str) -> bool:
    """Is it for the broker itself? Then rights are looked at when it is known what is asked."""
    return not exchange and routing_key == range_protocol.ROUTING_KEY
