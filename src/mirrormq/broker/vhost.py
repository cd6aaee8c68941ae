"""Live exchanges and queues of one vhost, built from the metadata and updated with its changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mirrormq.broker import declaration_checks, queue_copies
from mirrormq.broker.dead_letters import DeadLetterBacklog
from mirrormq.broker.traffic_counters import ChannelCounters, Traffic, publish_own
from mirrormq.errors import NotFound, ResourceLocked
from mirrormq.exchanges import exchange_types
from mirrormq.exchanges.binding import Binding, Destination
from mirrormq.exchanges.named_copies import NamedCopies
from mirrormq.exchanges.router import Router
from mirrormq.metadata import commands, records
from mirrormq.metadata.changes import Change, Put
from mirrormq.queues import sender_selected_routing
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.message import Envelope, Message
from mirrormq.queues.queue import Queue
from mirrormq.queues.queue_host import OnDeadLettered
from mirrormq.queues.queue_interface import QueueInterface
from mirrormq.queues.turn_work import TurnWork
from mirrormq.ranges.range_request import Answered, RangeRequest, Refused
from mirrormq.remote.down_queue import DownQueue
from mirrormq.replication.queue_factory import queue_settings
from mirrormq.replication.queue_roles import QueueRoles
from mirrormq.wire.content import build_frames
from mirrormq.wire.fields import Table, decode_entries
from mirrormq.wire.methods import encode_basic_publish
from mirrormq.wire.properties import BasicProperties, decode_properties, encode_properties

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker


def arguments_of(record: records.Exchange | records.Queue | records.Binding) -> Table:
    """Return the arguments that a record was declared with."""
    return decode_entries(record.arguments)


class Vhost:
    """Live objects of one vhost. Implements `QueueHost` for its queues."""

    def __init__(self, broker: Broker, record: records.Vhost, *, empty: bool = False) -> None:
        self.broker = broker
        self.name = record.name
        self.tracing = record.tracing
        self.clock = broker.clock
        self.work: TurnWork = broker.work
        self.limits = broker.hot_budget.limits
        self.queues: dict[str, QueueInterface] = {}
        self.past = ChannelCounters()
        """Sum of the counters of closed channels."""
        self.past_routes: dict[tuple[str, str], int] = {}
        """Messages that clients of closed channels published, by exchange and queue."""
        self.past_traffic = Traffic()
        """Sum of the traffic of closed connections."""
        self._state = self.rights = broker.metadata.state
        """Metadata state; its version number changes with users' permissions. `router.version` changes with
        the topology."""
        named = NamedCopies(lambda source, copy: queue_copies.may_copy(self._state, self.name, source, copy))
        self.router = Router(self.queues, named)
        self._owners: dict[str, object] = {}
        self._dead_letters = DeadLetterBacklog(self)
        self._draining = False
        self._repeats: tuple[int, dict[str, bool]] = (-1, {})
        self._queue_roles = QueueRoles(self)
        if empty:
            return
        for exchange in self._state.exchanges_of(self.name).values():
            self._add_exchange(exchange)
        for queue in self._state.queues_of(self.name).values():
            self._follow_queue(queue)
        for name in self._state.exchanges_of(self.name):
            for binding in self._state.bindings_from(self.name, name).values():
                self.router.bind(binding.source, _live(binding))

    # -- queries --------------------------------------------------------------------------------

    def find_exchange(self, name: str) -> records.Exchange | None:
        """Return the record of an exchange, or None."""
        return self._state.exchanges.get((self.name, name))

    def exchange_record(self, name: str) -> records.Exchange:
        """Return the record of an exchange, or raise 404."""
        record = self.find_exchange(name)
        if record is None:
            raise NotFound(f"no exchange '{name}' in vhost '{self.name}'")
        return record

    def find_queue(self, name: str) -> records.Queue | None:
        """Return the record of a queue, or None."""
        return self._state.queues.get((self.name, name))

    def accessible_queue(self, name: str, connection: object) -> QueueInterface:
        """Return a queue that this connection may use. Raise 404 if it does not exist, 405 if it is exclusive
        to another connection."""
        queue = self.queues.get(name)
        if queue is None:
            raise NotFound(f"no queue '{name}' in vhost '{self.name}'")
        if queue.owner is not None and queue.owner is not connection:
            raise ResourceLocked(declaration_checks.locked_text(self.name, name))
        self.check_home(name)
        return queue

    def check_home(self, name: str) -> None:
        """Raise 404 if only a node that is down holds the queue."""
        queue = self.queues.get(name)
        if isinstance(queue, DownQueue) and queue.absence is not None:
            raise queue.absence

    def local_queue(self, name: str) -> Queue | None:
        """Return a queue whose master is this node, or None."""
        queue = self.queues.get(name)
        return queue if isinstance(queue, Queue) else None

    def local_queues(self) -> list[Queue]:
        """Return all queues whose master is this node."""
        return [queue for queue in self.queues.values() if isinstance(queue, Queue)]

    def bindings_from(self, exchange: str) -> bool:
        """Return whether the exchange has bindings."""
        return bool(self._state.bindings_from(self.name, exchange))

    def claim_exclusive(self, name: str, connection: object) -> None:
        """Reserve a queue name for a connection that is about to declare an exclusive queue."""
        self._owners[name] = connection

    def disclaim_exclusive(self, name: str, connection: object) -> None:
        """Release the reservation of a queue name if the queue went to another connection or node."""
        queue = self.queues.get(name)
        if self._owners.get(name) is connection and (queue is None or queue.owner is not connection):
            del self._owners[name]

    def owner_of(self, name: str) -> object | None:
        """Return the connection that owns or will own the queue of this name. A queue that another client has
        declared meanwhile does not belong to the connection that reserved the name."""
        record = self.find_queue(name)
        return self._owners.get(name) if record is None or self._is_ours(record) else None

    def _is_ours(self, record: records.Queue) -> bool:
        """Return whether the queue belongs to a connection of this node."""
        return record.exclusive and record.node == self.broker.settings.name

    def exclusive_to(self, connection: object) -> list[str]:
        """Return the names of the queues that belong to a connection."""
        return [name for name, owner in self._owners.items() if owner is connection]

    def release(self, connection: object) -> None:
        """Delete the exclusive queues of a closed connection. All its declarations are applied by now, or
        never will be."""
        for name in self.exclusive_to(connection):
            record = self.find_queue(name)
            if record is not None and self.owner_of(name) is connection:
                self.broker.metadata.write(commands.DeleteQueue(self.name, name, record.queue_id))
            else:
                del self._owners[name]

    # -- routing --------------------------------------------------------------------------------

    def routes_repeat(self, exchange: str) -> bool:
        """Return whether equal messages always take the same route from this exchange without its
        involvement."""
        version, known = self._repeats
        if version != self.router.version:
            known = {}
            self._repeats = (self.router.version, known)
        repeats = known.get(exchange)
        if repeats is None:
            repeats = known[exchange] = self.router.routes_repeat(exchange)
        return repeats

    def queues_for(self, exchange: str, routing_key: str) -> tuple[QueueInterface, ...]:
        """Return the queues of a message without special headers; valid only if the router may cache routes
        of the exchange."""
        queues = self.queues
        return tuple([queues[name] for name in self.router.route(exchange, (routing_key,)) if name in queues])

    def route(
        self, envelope: Envelope, headers: Table, contents: list[bytes]
    ) -> tuple[Envelope, tuple[QueueInterface, ...], list[bytes]]:
        """Return the queues of a message; sender-selected keys may change its headers."""
        keys = [envelope.routing_key, *envelope.hidden_keys]
        if "CC" in headers or "BCC" in headers:
            envelope, keys, contents = sender_selected_routing.apply(envelope, headers, contents)
        message = Message(envelope, contents[0]) if not self.routes_repeat(envelope.exchange) else None
        properties = envelope.properties or b""
        names = self.router.route(
            envelope.exchange, keys, lambda: headers, lambda: _hash_properties(properties), message
        )
        queues = self.queues
        return envelope, tuple([queues[name] for name in names if name in queues]), contents

    def publish(self, exchange: str, routing_key: str, properties: BasicProperties, body: bytes) -> None:
        """Publish a message of the broker itself."""
        payload = encode_properties(properties)
        envelope = make_envelope(encode_basic_publish(exchange, routing_key), payload)
        frames = build_frames(1, payload, body, self.broker.settings.frame_max)
        _, queues, _ = self.route(envelope, properties.headers or {}, [frames])
        for queue in queues:
            if not queue.full or isinstance(queue, Queue):
                publish_own(queue, [Message(envelope, frames)])

    # -- QueueHost of its queues ----------------------------------------------------------------

    def dead_letter(
        self, queue: Queue, messages: Sequence[Message], reason: str, on_dead_lettered: OnDeadLettered
    ) -> None:
        """Publish messages to the queue's dead-letter exchange. Dead letters that result from this wait until
        it is done, so that a chain of queues may be longer than the stack is deep."""
        self._dead_letters.add(queue, messages, reason, on_dead_lettered)
        if not self._draining:
            with self.dead_letters_later():
                pass

    @contextmanager
    def dead_letters_later(self) -> Iterator[None]:
        """Defer dead letters to the end of the block: a publish reaches all its queues before its dead
        letters do."""
        if self._draining:
            yield
            return
        self._draining = True
        try:
            yield
        finally:
            try:
                self._dead_letters.publish()
            finally:
                self._draining = False

    def unused(self, queue: Queue) -> None:
        """Delete an auto-delete queue without consumers, or an expired queue."""
        record = self.find_queue(queue.name)
        if record is not None and self.queues.get(queue.name) is queue:
            self.broker.metadata.write(commands.DeleteQueue(self.name, queue.name, record.queue_id))

    def consumed(self, queue: Queue) -> None:
        """Record that an auto-delete queue has consumers: a new master must know if they were lost with the
        old one."""
        record = self.find_queue(queue.name)
        if record is None or record.consumed or self.queues.get(queue.name) is not queue:
            return
        if len(record.ring.members) > 1:
            self.broker.metadata.write(commands.NoteConsumer(record.queue_id))

    def handle_range_request(
        self, queue: Queue, range_request: RangeRequest, answered: Answered, refused: Refused, reader: object
    ) -> None:
        """Handle a range or lease request."""
        self.broker.range_requests.handle_range_request(queue, range_request, answered, refused, reader)

    # -- following the metadata -----------------------------------------------------------------

    def follow(self, change: Change) -> None:
        """Apply a metadata change to the live objects."""
        record = change.record
        present = isinstance(change, Put)
        if isinstance(record, records.Queue):
            if not present:
                self._remove_queue(record)
            else:
                self._follow_queue(record)
        elif isinstance(record, records.Exchange):
            if not present:
                self.router.remove(record.name)
            elif record.name not in self.router.exchanges:
                self._add_exchange(record)
        elif isinstance(record, records.Binding):
            self._follow_binding(record, present)
        else:
            self._apply_policies()

    def _follow_binding(self, record: records.Binding, present: bool) -> None:
        binding = _live(record)
        if not present:
            self.router.unbind(record.source, binding)
        elif self.router.bind(record.source, binding) and record.destination_kind == "queue":
            for message in self.router.exchanges[record.source].on_bind(binding):
                assert isinstance(message, Message)
                envelope, frames = message.envelope, message.frames
                for name in self.router.copies.reached([record.destination], envelope.routing_key):
                    publish_own(self.queues[name], [Message(envelope, frames)])

    def _add_exchange(self, record: records.Exchange) -> None:
        arguments = arguments_of(record)
        self.router.add(exchange_types.create(record.kind, record.name, arguments, self.broker.choose))
        self._apply_exchange_policy(record)

    def _apply_exchange_policy(self, record: records.Exchange) -> None:
        argument = arguments_of(record).get("alternate-exchange")
        alternate: object = None
        if argument is not None and isinstance(argument.value, bytes):
            alternate = argument.value.decode("utf-8", "surrogateescape")
        else:
            effective = self.broker.policies.effective(self.name, record.name, "exchanges")
            alternate = effective.definition.get("alternate-exchange")
        self.router.set_alternate(record.name, alternate if isinstance(alternate, str) else None)

    def _follow_queue(self, record: records.Queue) -> None:
        is_new = record.name not in self.queues
        self._queue_roles.follow(record)
        self.broker.repairs.ring_changed(record.queue_id)
        if is_new:
            requested_copy = queue_copies.requested_copy(arguments_of(record))
            if requested_copy is not None:
                self.router.copies.add(record.name, requested_copy.source, requested_copy.pattern)
            self.router.invalidate()

    def _remove_queue(self, record: records.Queue) -> None:
        self._queue_roles.remove(record.name)
        if self._is_ours(record):
            self._owners.pop(record.name, None)
        self.router.copies.remove(record.name)
        self.router.invalidate()

    def _apply_policies(self) -> None:
        for exchange in self._state.exchanges_of(self.name).values():
            self._apply_exchange_policy(exchange)
        for record in self._state.queues_of(self.name).values():
            queue = self.queues[record.name]
            settings = queue_settings(self.broker.policies, record)
            if settings != queue.settings:
                queue.apply(settings)
            self.broker.replica_manager.apply(record)

    def close(self) -> None:
        """Drop the live objects of a deleted vhost; its queues were removed before."""
        self.queues.clear()


def _live(record: records.Binding) -> Binding:
    return Binding(
        Destination(record.destination_kind, record.destination),
        record.routing_key,
        len(record.arguments).to_bytes(4, "big") + record.arguments,
    )


def _hash_properties(properties: bytes) -> dict[str, str | int]:
    """Return the properties that a consistent-hash exchange can hash."""
    decoded = decode_properties(properties, 0)
    values = {
        "correlation_id": decoded.correlation_id,
        "message_id": decoded.message_id,
        "timestamp": decoded.timestamp,
    }
    return {name: value for name, value in values.items() if value is not None}
