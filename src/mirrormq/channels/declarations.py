"""Declaration, binding, purge and deletion of exchanges and queues.

Each handler checks names, permissions and existing objects, and then writes a metadata command. The reply
is sent when the replicated log has applied the command.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mirrormq.broker import arguments as queue_arguments
from mirrormq.broker import declaration_checks, queue_copies
from mirrormq.broker.direct_replies import QUEUE_NAME as REPLY_QUEUE
from mirrormq.errors import AccessRefused, AmqpError, NotFound, PreconditionFailed, ResourceLocked
from mirrormq.exchanges import exchange_types
from mirrormq.metadata import commands, records
from mirrormq.queues.queue_interface import QueueInterface, Refused
from mirrormq.ranges.error_reasons import NO_QUEUE
from mirrormq.replication.queue_placement import placed
from mirrormq.wire import methods
from mirrormq.wire.fields import Table, encode_table

if TYPE_CHECKING:
    from mirrormq.channels.channel import Channel

Count = Callable[[Callable[[int, int], bool], Refused], None]

_LENGTH_SIZE = 4


def table_bytes(table: Table) -> bytes:
    """Return a table as metadata stores it: encoded, without its length; empty for no entries."""
    return encode_table(table)[_LENGTH_SIZE:]


def check_name(kind: str, name: str) -> None:
    """Refuse names with the broker's reserved prefix."""
    if name.startswith("amq."):
        raise AccessRefused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def refuse_default(exchange: str) -> None:
    """Refuse to declare, delete or bind the default exchange."""
    if not exchange:
        raise AccessRefused("operation not permitted on the default exchange")


def strip(name: str) -> str:
    """Remove line ends from a name, as RabbitMQ does."""
    return name.replace("\r", "").replace("\n", "")


def exchange_declare(channel: Channel, method: methods.ExchangeDeclare) -> None:
    """Handle exchange.declare."""
    name = strip(method.exchange)
    if method.passive:
        refuse_default(name)
        channel.vhost.exchange_record(name)
        answer(channel, method.nowait, methods.encode_exchange_declare_ok())
        return
    exchange_types.validate_kind(method.type_)
    refuse_default(name)
    channel.check_permission("exchange", name, "configure")
    existing = channel.vhost.find_exchange(name)
    if existing is None:
        check_name("exchange", name)
        _check_alternate(channel, name, method.arguments)
        queue_arguments.validate_exchange(channel.vhost.name, name, method.arguments)
        exchange_types.validate_arguments(method.type_, method.arguments)
    record = records.Exchange(
        channel.vhost.name, name, method.type_, method.durable, method.auto_delete, method.internal,
        table_bytes(method.arguments),
    )  # fmt: skip
    if existing is not None:
        declaration_checks.check_exchange(existing, record, method.arguments)
        answer(channel, method.nowait, methods.encode_exchange_declare_ok())
        return

    def written() -> None:
        made = channel.vhost.find_exchange(name)
        if made is not None:  # a client of another node may have declared it first
            declaration_checks.check_exchange(made, record, method.arguments)
        answer(channel, method.nowait, methods.encode_exchange_declare_ok())

    channel.write(methods.EXCHANGE_DECLARE, commands.PutExchange(record), written)


def _check_alternate(channel: Channel, name: str, arguments: Table) -> None:
    alternate = arguments.get("alternate-exchange")
    if alternate is None:
        return
    if alternate.kind != "S" or not isinstance(alternate.value, bytes):
        raise PreconditionFailed(
            f"invalid type '{queue_arguments.type_name(alternate)}' for arg 'alternate-exchange' in "
            f"exchange '{name}' in vhost '{channel.vhost.name}'"
        )
    channel.check_permission("exchange", name, "read")
    channel.check_permission("exchange", alternate.value.decode("utf-8", "surrogateescape"), "write")


def exchange_delete(channel: Channel, method: methods.ExchangeDelete) -> None:
    """Handle exchange.delete. An exchange that does not exist counts as deleted."""
    name = strip(method.exchange)
    refuse_default(name)
    if name.startswith("amq."):
        raise AccessRefused(
            f"deletion of system exchange '{name}' in vhost '{channel.vhost.name}' not allowed"
        )
    channel.check_permission("exchange", name, "configure")
    if channel.vhost.find_exchange(name) is None:
        answer(channel, method.nowait, methods.encode_exchange_delete_ok())
        return
    if method.if_unused and channel.vhost.bindings_from(name):
        raise PreconditionFailed(f"exchange '{name}' in vhost '{channel.vhost.name}' in use")
    command = commands.DeleteExchange(channel.vhost.name, name)
    write(channel, methods.EXCHANGE_DELETE, command, method.nowait, methods.encode_exchange_delete_ok)


def queue_declare(channel: Channel, method: methods.QueueDeclare) -> None:
    """Handle queue.declare."""
    name = strip(method.queue)
    vhost = channel.vhost
    if name.startswith(REPLY_QUEUE):
        _declare_reply_queue(channel, name, method.nowait)
        return
    if method.passive:
        queue = vhost.accessible_queue(name, channel.connection)
        _reply_declared(channel, name, method.nowait, queue, queue.count)
        return
    if name:
        if vhost.find_queue(name) is None:
            check_name("queue", name)
    else:
        queue_arguments.check_nameless(method.arguments)
        name = "amq.gen-" + channel.broker.unique_name()
    channel.check_permission("queue", name, "configure")
    durable = method.durable and not method.exclusive
    record = records.Queue(
        vhost.name, name, 0, durable, method.auto_delete, method.exclusive,
        table_bytes(method.arguments), channel.broker.settings.name,
    )  # fmt: skip
    existing = vhost.find_queue(name)
    if existing is not None:
        vhost.check_home(name)
        _check_queue(channel, existing, record, method.arguments)
        channel.broker.events.churn.queue_declared += 1
        _declared(channel, name, method.nowait)
        return
    channel.broker.client_limits.check_queue(vhost.name, name)
    queue_arguments.check_dead_letter_exchange(vhost.name, name, method.arguments)
    _check_dead_letter_rights(channel, name, method.arguments)
    queue_arguments.validate(vhost.name, name, method.arguments, exclusive=method.exclusive)
    _check_copy_rights(channel, method.arguments)
    if method.exclusive:
        vhost.claim_exclusive(name, channel.connection)

    def written() -> None:
        made = vhost.find_queue(name)
        if made is not None:
            _check_queue(channel, made, record, method.arguments)
        channel.broker.events.churn.queue_declared += 1
        _declared(channel, name, method.nowait)

    put = commands.PutQueue(placed(channel.broker, record, method.arguments))
    channel.write(methods.QUEUE_DECLARE, put, written)


def _declare_reply_queue(channel: Channel, name: str, nowait: bool) -> None:
    """Declare a direct reply-to queue: a server checks in this way whether its client still exists."""

    def put(answered: Callable[[bool], bool], refused: Refused) -> None:
        if name == REPLY_QUEUE:
            answered(True)
        else:
            channel.broker.find_reply_channel(name, answered)

    def found(known: bool) -> None:
        if not known:
            raise NotFound(f"no queue '{name}' in vhost '{channel.vhost.name}'")
        answer(channel, nowait, methods.encode_queue_declare_ok(name, 0, 1))

    channel.ask(methods.QUEUE_DECLARE, put, found)


def _declared(channel: Channel, name: str, nowait: bool) -> None:
    """Reply to a declaration whose queue exists as requested, or was deleted again meanwhile."""
    if name not in channel.vhost.queues:
        channel.last_queue = name
        answer(channel, nowait, methods.encode_queue_declare_ok(name, 0, 0))
        return
    queue = channel.vhost.accessible_queue(name, channel.connection)

    def count(answered: Callable[[int, int], bool], refused: Refused) -> None:
        def otherwise(error: AmqpError) -> None:
            if error.reason == NO_QUEUE:
                answered(0, 0)
            else:
                refused(error)

        queue.count(answered, otherwise)

    _reply_declared(channel, name, nowait, queue, count)


def _reply_declared(channel: Channel, name: str, nowait: bool, queue: QueueInterface, count: Count) -> None:
    channel.last_queue = name
    if nowait:
        queue.touch()
        return

    def counted(ready: int, consumers: int) -> None:
        channel.send(methods.encode_queue_declare_ok(name, ready, consumers))

    channel.ask(methods.QUEUE_DECLARE, count, counted)


def _check_queue(channel: Channel, existing: records.Queue, wanted: records.Queue, arguments: Table) -> None:
    """Check that an existing queue is equivalent to the requested one. A client of another node may have
    declared it first."""
    name, vhost = existing.name, channel.vhost
    owner = vhost.queues[name].owner
    foreign = existing.exclusive and existing.node != channel.broker.settings.name
    if foreign or owner is not (channel.connection if wanted.exclusive else None):
        vhost.disclaim_exclusive(name, channel.connection)
        raise ResourceLocked(declaration_checks.locked_text(vhost.name, name))
    declaration_checks.check_queue(existing, wanted, arguments)


def _check_dead_letter_rights(channel: Channel, name: str, arguments: Table) -> None:
    exchange = arguments.get("x-dead-letter-exchange")
    if exchange is not None and isinstance(exchange.value, bytes):
        channel.check_permission("queue", name, "read")
        channel.check_permission("exchange", exchange.value.decode("utf-8", "surrogateescape"), "write")


def _check_copy_rights(channel: Channel, arguments: Table) -> None:
    """Check the read permission for a named copy: it receives everything that the source queue receives."""
    requested_copy = queue_copies.requested_copy(arguments)
    if requested_copy is None:
        return
    channel.check_permission("queue", requested_copy.source, "read")
    source, owner = (
        channel.vhost.find_queue(requested_copy.source),
        channel.vhost.owner_of(requested_copy.source),
    )
    foreign = source is not None and source.exclusive and owner is None
    if foreign or owner not in (None, channel.connection):
        raise ResourceLocked(declaration_checks.locked_text(channel.vhost.name, requested_copy.source))


def queue_delete(channel: Channel, method: methods.QueueDelete) -> None:
    """Handle queue.delete. A queue that does not exist counts as deleted."""
    name = channel.queue_name(method.queue)
    channel.check_permission("queue", name, "configure")
    if name not in channel.vhost.queues:
        answer(channel, method.nowait, methods.encode_queue_delete_ok(0))
        return
    queue = channel.vhost.accessible_queue(name, channel.connection)

    def put(answered: Callable[[int], bool], refused: Refused) -> None:
        queue.check_deletion(method.if_unused, method.if_empty, answered, refused)

    record = channel.vhost.find_queue(name)
    queue_id = record.queue_id if record is not None else 0

    def allowed(count: int) -> None:
        command = commands.DeleteQueue(channel.vhost.name, name, queue_id)
        write(
            channel, methods.QUEUE_DELETE, command, method.nowait,
            lambda: methods.encode_queue_delete_ok(count),
        )  # fmt: skip

    channel.ask(methods.QUEUE_DELETE, put, allowed)


def queue_purge(channel: Channel, method: methods.QueuePurge) -> None:
    """Handle queue.purge."""
    name = channel.queue_name(method.queue)
    channel.check_permission("queue", name, "read")
    queue = channel.vhost.accessible_queue(name, channel.connection)

    def purged(count: int) -> None:
        answer(channel, method.nowait, methods.encode_queue_purge_ok(count))

    channel.ask(methods.QUEUE_PURGE, queue.purge, purged)


def queue_bind(channel: Channel, method: methods.QueueBind) -> None:
    """Handle queue.bind."""
    name, key = _queue_and_key(channel, method.queue, method.routing_key)
    binding = _checked_binding(channel, "queue", name, method.exchange, key, method.arguments)
    record = channel.vhost.exchange_record(method.exchange)
    if name in channel.vhost.queues:
        exchange_types.validate_binding(record.kind, key, method.arguments)
    channel.vhost.accessible_queue(name, channel.connection)
    command = commands.PutBinding(binding)
    write(channel, methods.QUEUE_BIND, command, method.nowait, methods.encode_queue_bind_ok)


def queue_unbind(channel: Channel, method: methods.QueueUnbind) -> None:
    """Handle queue.unbind. A binding that does not exist counts as removed."""
    name, key = _queue_and_key(channel, method.queue, method.routing_key)
    binding = _checked_binding(channel, "queue", name, method.exchange, key, method.arguments)
    channel.vhost.check_home(name)
    if binding.key in channel.broker.metadata.state.bindings:
        channel.vhost.accessible_queue(name, channel.connection)
    _unbind(channel, methods.QUEUE_UNBIND, binding, False, methods.encode_queue_unbind_ok)


def _queue_and_key(channel: Channel, queue: str, key: str) -> tuple[str, str]:
    """Return queue name and routing key. An empty queue name means the last declared queue; an empty key
    with it, that queue's name."""
    name = channel.queue_name(queue)
    if not queue and not key:
        key = name
    return name, key


def exchange_bind(channel: Channel, method: methods.ExchangeBind) -> None:
    """Handle exchange.bind."""
    binding = _checked_binding(
        channel, "exchange", method.destination, method.source, method.routing_key, method.arguments
    )
    source = channel.vhost.exchange_record(method.source)
    channel.vhost.exchange_record(method.destination)
    exchange_types.validate_binding(source.kind, method.routing_key, method.arguments)
    command = commands.PutBinding(binding)
    write(channel, methods.EXCHANGE_BIND, command, method.nowait, methods.encode_exchange_bind_ok)


def exchange_unbind(channel: Channel, method: methods.ExchangeUnbind) -> None:
    """Handle exchange.unbind."""
    binding = _checked_binding(
        channel, "exchange", method.destination, method.source, method.routing_key, method.arguments
    )
    _unbind(channel, methods.EXCHANGE_UNBIND, binding, method.nowait, methods.encode_exchange_unbind_ok)


def _checked_binding(
    channel: Channel, kind: records.DestinationKind, destination: str, source: str, key: str, arguments: Table
) -> records.Binding:
    if kind == "exchange":
        refuse_default(destination)
    refuse_default(source)
    channel.check_permission(kind, destination, "write")
    channel.check_permission("exchange", source, "read")
    channel.check_topic(source, key, "read")
    ordered = dict(sorted(arguments.items()))
    return records.Binding(channel.vhost.name, source, kind, destination, key, table_bytes(ordered))


def _unbind(
    channel: Channel, method_id: int, binding: records.Binding, nowait: bool, encode: Callable[[], bytes]
) -> None:
    if binding.key not in channel.broker.metadata.state.bindings:
        answer(channel, nowait, encode())
        return
    command = commands.DeleteBinding(
        binding.vhost, binding.source, binding.destination_kind, binding.destination, binding.routing_key,
        binding.arguments,
    )  # fmt: skip
    write(channel, method_id, command, nowait, encode)


def answer(channel: Channel, nowait: bool, payload: bytes) -> None:
    """Send a reply unless the client set `nowait`."""
    if not nowait:
        channel.send(payload)


def write(
    channel: Channel, method_id: int, command: commands.Command, nowait: bool, encode: Callable[[], bytes]
) -> None:
    """Change the metadata, then reply."""
    channel.write(method_id, command, lambda: answer(channel, nowait, encode()))


METHODS: dict[int, Callable[[Channel, Any], None]] = {
    methods.EXCHANGE_DECLARE: exchange_declare,
    methods.EXCHANGE_DELETE: exchange_delete,
    methods.EXCHANGE_BIND: exchange_bind,
    methods.EXCHANGE_UNBIND: exchange_unbind,
    methods.QUEUE_DECLARE: queue_declare,
    methods.QUEUE_DELETE: queue_delete,
    methods.QUEUE_PURGE: queue_purge,
    methods.QUEUE_BIND: queue_bind,
    methods.QUEUE_UNBIND: queue_unbind,
}
