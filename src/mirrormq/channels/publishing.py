"""Publishing side of a channel: from basic.publish to queues, returns and confirms.

A message's payload determines a route (`channels.routes`), and the route its queues. Consecutive messages to
the same queues are appended to each queue in one call, whether they are alike or not. A message whose
properties concern the broker (expiration, user id, copies to other keys, direct reply) is handled separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final

from mirrormq import limits
from mirrormq.channels import direct_reply_to, migrated_publishes
from mirrormq.channels.confirm_ledger import ConfirmLedger
from mirrormq.channels.routes import Destination, Route
from mirrormq.channels.unacked import Delivery
from mirrormq.errors import AccessRefused, AmqpError, NotImplementedByBroker, PreconditionFailed
from mirrormq.queues import sender_selected_routing
from mirrormq.queues.envelope import ExpirationInvalid, make_envelope, parse_expiration
from mirrormq.queues.message import NEVER, Envelope, Message
from mirrormq.queues.publish_ids import MIGRATED_FROM_HEADER, PRODUCER_HEADER, publish_id_of
from mirrormq.queues.publish_order_guard import PublishOrderGuard
from mirrormq.queues.queue import AnyQueue
from mirrormq.queues.queue_interface import Publisher
from mirrormq.ranges import range_protocol
from mirrormq.wire.content import properties_of
from mirrormq.wire.fields import Table
from mirrormq.wire.header_walk import needs_decoding
from mirrormq.wire.methods import decode_basic_publish, encode_basic_return
from mirrormq.wire.properties import (
    decode_headers,
    decode_properties,
    encode_properties,
    plain_traits,
    scan_properties,
)

if TYPE_CHECKING:
    from mirrormq.channels.channel import Channel

NO_ROUTE = 312

ADMINISTRATOR = "administrator"
"""Tag of users whose publishes may name an earlier exchange and routing key."""

NO_PRODUCER = ("", 0)
"""Producer and publish id of a message without them."""

_BODY_SIZE: Final = Struct(">Q").unpack_from
_BODY_SIZE_AT: Final = 11
"""Octet of content frames at which the body's size starts."""


class Publishing:
    """Publishing state of one channel: routes, confirms, open transaction."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.confirms: ConfirmLedger | None = None
        self.transaction: list[tuple[Envelope, tuple[AnyQueue, ...], list[bytes]]] | None = None
        self._transaction_bytes = 0
        self.gate = PublishOrderGuard()
        self.settlements: list[tuple[str, list[Delivery]]] = []
        """Deliveries that the open transaction has acknowledged or rejected."""
        self._routes: dict[bytes, Route] = {}
        self._destinations: dict[Destination, Destination] = {}
        self._version = -1
        """Version of topology and permissions for which the cached routes are valid."""

    # -- routes -----------------------------------------------------------------------------------

    def _valid_routes(self) -> dict[bytes, Route]:
        vhost = self.channel.vhost
        version = vhost.router.version + vhost.rights.access_version
        if version != self._version or len(self._routes) > limits.PUBLISH_TARGETS_CACHED:
            self._version = version
            self._routes.clear()
            self._destinations.clear()
        return self._routes

    def _find_route(self, publish: bytes) -> Route:
        """Check a new basic.publish payload, and cache its route."""
        method = decode_basic_publish(publish)
        channel = self.channel
        vhost = channel.vhost
        if method.immediate:
            raise NotImplementedByBroker("immediate=true")
        exchange, routing_key = method.exchange, method.routing_key
        # RabbitMQ's order decides which of several mistakes is reported: immediate, permission, unknown
        # exchange, internal exchange, topic permission.
        is_range_request = _is_range_request(exchange, routing_key)
        if not is_range_request:
            channel.check_permission("exchange", exchange, "write")
        record = vhost.exchange_record(exchange)
        if record.internal:
            raise AccessRefused(f"cannot publish to internal exchange '{exchange}' in vhost '{vhost.name}'")
        channel.check_topic(exchange, routing_key, "write")
        route = Route(publish, exchange, routing_key, mandatory=method.mandatory)
        if not is_range_request and vhost.router.may_remember(exchange):
            queues = vhost.queues_for(exchange, routing_key)
            if queues:
                destination = Destination(exchange, queues)
                route.destination = self._destinations.setdefault(destination, destination)
        self._routes[publish] = route
        return route

    # -- publishing -------------------------------------------------------------------------------

    def publish_each(self, publishes: list[bytes], contents: list[bytes]) -> None:
        """Publish messages, each with its own payload. Consecutive messages to the same queues are
        appended together; a message that needs decoding is published separately, in order."""
        if self.transaction is not None or self.channel.traced:
            for publish, content in zip(publishes, contents, strict=True):
                self.publish(publish, properties_of(content), [content])
            return
        routes = self._valid_routes()
        batch: list[Message] = []
        destination, persistent, producer_ids = None, False, False
        try:
            for publish, content in zip(publishes, contents, strict=True):
                route = routes.get(publish) or self._find_route(publish)
                envelope = None
                if route.destination is not None:
                    traits = plain_traits(content)
                    envelope = route.envelope(traits) if traits >= 0 else _decoded_envelope(route, content)
                if envelope is None:
                    # First what was collected: the queues must receive messages in the order of the channel.
                    self._append_batch(destination, batch)
                    self.publish(publish, properties_of(content), [content])
                    routes = self._valid_routes()
                    continue
                if (
                    route.destination is not destination
                    or envelope.persistent is not persistent
                    or (envelope.producer_ids is not None) is not producer_ids
                ):
                    if batch:
                        self._append_batch(destination, batch)
                    destination, persistent = route.destination, envelope.persistent
                    producer_ids = envelope.producer_ids is not None
                batch.append(Message(envelope, content, NEVER, _BODY_SIZE(content, _BODY_SIZE_AT)[0]))
        finally:
            # Also after an error: the messages before the one that closes the channel count as published.
            self._append_batch(destination, batch)

    def publish_one(self, publish: bytes, content: bytes) -> None:
        """Publish one message."""
        if self.transaction is None and not self.channel.vhost.tracing:
            route = self._valid_routes().get(publish) or self._find_route(publish)
            if route.destination is not None:
                traits = plain_traits(content)
                if traits >= 0:
                    body_size: int = _BODY_SIZE(content, _BODY_SIZE_AT)[0]
                    message = Message(route.envelope(traits), content, NEVER, body_size)
                    self._append_messages(route.destination, [message], producer_ids=False)
                    return
        self.publish(publish, properties_of(content), [content])

    def _append_batch(self, destination: Destination | None, batch: list[Message]) -> None:
        """Append the collected messages, and clear the batch."""
        if not batch or destination is None:
            return
        messages = batch.copy()
        batch.clear()
        producer_ids = messages[0].envelope.producer_ids is not None
        if producer_ids and self.gate.closed:
            for message in messages:
                self.publish(message.envelope.publish, message.properties, [message.frames])
        else:
            self._append_messages(destination, messages, producer_ids=producer_ids)

    def _append_messages(
        self, destination: Destination, messages: list[Message], *, producer_ids: bool
    ) -> None:
        """Number the messages if the channel confirms, and append them to all their queues."""
        queues = destination.queues
        # Number before appending: a queue may confirm or refuse during the call.
        first, publisher = 0, None
        if self.confirms is not None:
            first, publisher = self.confirms.take_numbers(len(messages), len(queues)), self.channel
        self.count(destination.exchange, len(messages), queues, first)
        if len(queues) == 1:
            queue = queues[0]
            queue.publish(messages, publisher, first)
            if queue.congested:
                self._yield_to(queue, messages)
        else:
            self._append_to_all(queues, messages, publisher, first)
        if producer_ids and self.confirms is not None:
            refused = self.confirms.lowest_refused(first)
            if refused is not None:
                self.gate.close(messages[refused - first].envelope.producer_ids or NO_PRODUCER)

    def _append_to_all(
        self,
        queues: tuple[AnyQueue, ...],
        messages: list[Message],
        publisher: Publisher | None,
        first: int,
    ) -> None:
        # Copy first: a queue may release the contents of messages that it has delivered.
        copies = [[Message(m.envelope, m.frames, NEVER, m.body_size) for m in messages] for _ in queues[1:]]
        with self.channel.vhost.dead_letters_later():
            for queue, own in zip(queues, [messages, *copies], strict=True):
                self.append(queue, own, publisher, first)

    def publish(self, publish: bytes, properties: bytes, contents: list[bytes]) -> None:
        """Publish messages that share payload and properties; each content is `frames`."""
        channel = self.channel
        route = self._valid_routes().get(publish) or self._find_route(publish)
        if properties == route.seen_properties and route.seen_envelope is not None:
            envelope, queues = route.seen_envelope, route.seen_queues
        else:
            if len(contents) > 1 and not channel.vhost.routes_repeat(route.exchange):
                for content in contents:
                    self.publish(publish, properties, [content])
                return
            envelope, queues, contents = self._look_up(route, properties, contents)
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
        queues: tuple[AnyQueue, ...],
    ) -> bool:  # fmt: skip
        """Return False if an earlier message of the producer was refused (`PublishOrderGuard`), and
        refuse these as well."""
        if not self.gate.stops(producer_ids):
            return True
        for number in range(first, first + len(messages)):
            for _ in queues:
                self.channel.refused(number)
        return False

    def _keep_for_commit(
        self, envelope: Envelope, queues: tuple[AnyQueue, ...], contents: list[bytes]
    ) -> None:
        assert self.transaction is not None
        if not self.transaction:
            self._transaction_bytes = 0
        self._transaction_bytes += sum(map(len, contents)) + len(contents) * limits.MESSAGE_OVERHEAD_BYTES
        if self._transaction_bytes > limits.TRANSACTION_BYTES_MAX:
            self.transaction.clear()
            most = limits.TRANSACTION_BYTES_MAX
            raise PreconditionFailed(f"a transaction may hold {most} bytes before its commit")
        last = self.transaction[-1] if self.transaction else None
        if (
            last is not None
            and last[0] is envelope
            and last[1] is queues
            and _frame_bytes(last[2][0]) == _frame_bytes(contents[0])
        ):
            last[2].extend(contents)
        else:
            self.transaction.append((envelope, queues, list(contents)))

    def hand_over(
        self, envelope: Envelope, queues: tuple[AnyQueue, ...], contents: list[bytes],
        publisher: Publisher | None, first: int,
    ) -> None:  # fmt: skip
        """Append the messages to their queues, or return them."""
        self.count(envelope.exchange, len(contents), queues, first)
        if not queues:
            self._handle_unroutable(envelope, contents)
        elif len(queues) > 1:
            with self.channel.vhost.dead_letters_later():
                self._append(envelope, queues, contents, publisher, first)
        else:
            self._append(envelope, queues, contents, publisher, first)

    def count(self, exchange: str, count: int, queues: tuple[AnyQueue, ...], first: int) -> None:
        """Count messages from an exchange to queues; `first` is the confirm number of the first message."""
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

    def _handle_unroutable(self, envelope: Envelope, contents: list[bytes]) -> None:
        if _is_range_request(envelope.exchange, envelope.routing_key):
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
        self, envelope: Envelope, queues: tuple[AnyQueue, ...], contents: list[bytes],
        publisher: Publisher | None, first: int,
    ) -> None:  # fmt: skip
        overhead = len(contents[0]) - int.from_bytes(contents[0][11:19], "big")
        for queue in queues:
            messages = [Message(envelope, content, NEVER, len(content) - overhead) for content in contents]
            self.append(queue, messages, publisher, first)

    def append(
        self, queue: AnyQueue, messages: list[Message], publisher: Publisher | None, first: int
    ) -> None:
        """Append messages to a queue; the connection yields if the queue is congested."""
        queue.publish(messages, publisher, first)
        if queue.congested:
            self._yield_to(queue, messages)

    def _yield_to(self, queue: AnyQueue, messages: list[Message]) -> None:
        size_bytes = sum([message.body_size for message in messages])
        self.channel.connection.congested_by(queue, len(messages), size_bytes)

    def _return(self, envelope: Envelope, contents: list[bytes]) -> None:
        method = encode_basic_return(NO_ROUTE, "NO_ROUTE", envelope.exchange, envelope.routing_key)
        for content in contents:
            self.channel.send_content(method, content)

    def _look_up(
        self, route: Route, properties: bytes, contents: list[bytes]
    ) -> tuple[Envelope, tuple[AnyQueue, ...], list[bytes]]:
        """Return envelope, queues and contents of messages by their properties, and cache them for
        equal messages. The contents may change."""
        channel = self.channel
        headers_at = self.checked(properties)
        envelope = make_envelope(route.publish, properties)
        if direct_reply_to.QUEUE_NAME_BYTES in properties:
            envelope, contents = direct_reply_to.expand(channel, envelope, contents)
        headers: Table = {}
        by_key = channel.vhost.router.may_remember(route.exchange)
        if headers_at >= 0 and (not by_key or needs_decoding(properties, headers_at)):
            headers = decode_headers(properties, headers_at)
        envelope, queues, contents = channel.vhost.route(envelope, headers, contents)
        if PRODUCER_HEADER in headers:
            envelope.identify(publish_id_of(headers))
            if MIGRATED_FROM_HEADER in headers and queues and ADMINISTRATOR in channel.user.tags:
                envelope, contents = migrated_publishes.restored(envelope, headers, contents)
        unchanged = envelope.properties is properties and channel.vhost.routes_repeat(route.exchange)
        route.seen_properties = properties if unchanged else None
        route.seen_envelope, route.seen_queues = envelope, queues
        return envelope, queues, contents

    def checked(self, properties: bytes) -> int:
        """Validate properties; return the offset of the headers, or -1. The checks are in RabbitMQ's
        order: reply-to, user id, expiration, routing keys in headers, delivery mode."""
        try:
            _, _, expiration, headers_at, user_id = scan_properties(properties)
        except PreconditionFailed:
            # The delivery mode is invalid, and RabbitMQ checks it last: report an earlier mistake first.
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


def _frame_bytes(content: bytes) -> int:
    """Return the octets of a content that are not of its body: equal for publishes that may form a run."""
    body_size: int = _BODY_SIZE(content, _BODY_SIZE_AT)[0]
    return len(content) - body_size


def _decoded_envelope(route: Route, content: bytes) -> Envelope | None:
    """Return the envelope of a message whose headers must be decoded; None if it cannot join a batch."""
    properties = properties_of(content)
    try:
        persistent, priority, expiration, headers_at, user_id = scan_properties(properties)
        if expiration is not None or user_id is not None or headers_at < 0:
            return None
        headers = decode_properties(properties, 0).headers or {}
    except AmqpError:
        return None
    if "CC" in headers or "BCC" in headers or MIGRATED_FROM_HEADER in headers:
        return None
    if direct_reply_to.QUEUE_NAME_BYTES in properties:
        return None
    envelope = route.new_envelope(properties, persistent, priority)
    if PRODUCER_HEADER in headers:
        envelope.identify(publish_id_of(headers))
    return envelope


def _is_range_request(exchange: str, routing_key: str) -> bool:
    """Return whether a publish is a range request to the broker. Its permissions are checked when it is
    decoded."""
    return not exchange and routing_key == range_protocol.ROUTING_KEY
