"""Methods basic.consume, cancel, get and qos; channel.flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mirrormq.broker import arguments as queue_arguments
from mirrormq.broker.direct_replies import QUEUE_NAME
from mirrormq.channels import acknowledgements, direct_reply_to
from mirrormq.channels.consumer import Consumer
from mirrormq.errors import AmqpError, NotAllowed, NotImplementedByBroker, PreconditionFailed
from mirrormq.queues.message import Message
from mirrormq.queues.queue import AnyQueue, Queue
from mirrormq.queues.queue_interface import Refused
from mirrormq.wire import methods
from mirrormq.wire.fields import TYPE_NAMES, Table

if TYPE_CHECKING:
    from mirrormq.channels.channel import Channel

_GET_OK: Final = methods.BASIC_GET_OK.to_bytes(4, "big")


def qos(channel: Channel, method: methods.BasicQos) -> None:
    """Handle basic.qos: set the prefetch of later consumers, or of the whole channel."""
    if method.prefetch_size:
        raise NotImplementedByBroker(f"prefetch_size!=0 ({method.prefetch_size})")
    channel.send(methods.encode_basic_qos_ok())
    if method.global_:
        channel.prefetch = method.prefetch_count
        acknowledgements.make_room(channel)
    else:
        channel.consumer_prefetch = method.prefetch_count


def consume(channel: Channel, method: methods.BasicConsume) -> None:
    """Handle basic.consume."""
    if method.queue == QUEUE_NAME:
        direct_reply_to.consume(channel, method, claim_tag(channel, method.consumer_tag))
        return
    name = channel.queue_name(method.queue)
    channel.check_permission("queue", name, "read")
    tag = claim_tag(channel, method.consumer_tag)
    queue = channel.vhost.accessible_queue(name, channel.connection)
    priority = _checked_priority(channel, name, method.arguments)
    consumer = Consumer(
        channel, queue, tag, no_ack=method.no_ack, exclusive=method.exclusive, priority=priority,
        prefetch=channel.consumer_prefetch, arguments=method.arguments,
    )  # fmt: skip

    def send_request(answered: Callable[[], bool], refused: Refused) -> None:
        def join_or_leave() -> None:
            if not answered():
                # The channel has closed meanwhile. The queue would deliver to a consumer without a client.
                consumer.queue.unsubscribe(consumer)

        queue.subscribe(consumer, join_or_leave, refused)

    def joined() -> None:
        channel.consumers[tag] = consumer
        if not method.nowait:
            channel.send(methods.encode_basic_consume_ok(tag))
        channel.broker.events.consumer_created(consumer)

    channel.ask(methods.BASIC_CONSUME, send_request, joined)


def claim_tag(channel: Channel, tag: str) -> str:
    """Return the requested consumer tag, or a new one."""
    if not tag:
        return "amq.ctag-" + channel.broker.unique_name()
    if tag in channel.consumers:
        raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
    return tag


def _checked_priority(channel: Channel, queue: str, arguments: Table) -> int:
    """Return the consumer's priority after checking all its arguments."""
    vhost = channel.vhost.name
    priority, cancel = arguments.get("x-priority"), arguments.get("x-cancel-on-ha-failover")
    if priority is not None and priority.kind not in queue_arguments.INTEGER_KINDS:
        raise PreconditionFailed(
            f"invalid arg 'x-priority' for queue '{queue}' in vhost '{vhost}': "
            f'"expected integer, got {TYPE_NAMES[priority.kind]}"'
        )
    if cancel is not None and not isinstance(cancel.value, bool):
        raise PreconditionFailed(
            f"invalid arg 'x-cancel-on-ha-failover' for queue '{queue}' in vhost '{vhost}': "
            f"{{unacceptable_type,{TYPE_NAMES[cancel.kind]}}}"
        )
    queue_arguments.refuse_of_other_types(vhost, queue, arguments, frozenset(["x-stream-offset"]))
    return priority.value if priority is not None and isinstance(priority.value, int) else 0


def cancel(channel: Channel, method: methods.BasicCancel) -> None:
    """Handle basic.cancel. Cancelling an unknown consumer also gets a reply. The queue is queried first,
    so that earlier messages are delivered before cancel-ok, also if the queue is on another node."""
    consumer = channel.consumers.get(method.consumer_tag)

    def cancelled() -> None:
        if consumer is not None and channel.consumers.get(consumer.tag) is consumer:
            remove(channel, consumer, channel.user.name)
        if not method.nowait:
            channel.send(methods.encode_basic_cancel_ok(method.consumer_tag))

    if channel.reply_consumer is not None and channel.reply_consumer.tag == method.consumer_tag:
        direct_reply_to.stop(channel)
    if consumer is None:
        cancelled()
        return
    queue = consumer.queue

    def send_request(answered: Callable[[], bool], refused: Refused) -> None:
        def gone(error: AmqpError) -> None:
            answered()

        queue.count(lambda ready, consumers: answered(), gone)

    channel.ask(methods.BASIC_CANCEL, send_request, cancelled)


def remove(channel: Channel, consumer: Consumer, actor: str) -> None:
    """Remove a consumer on behalf of `actor`. Its unacknowledged deliveries stay with the channel."""
    del channel.consumers[consumer.tag]
    channel.broker.events.consumer_deleted(consumer, actor)
    consumer.queue.unsubscribe(consumer)


def get(channel: Channel, method: methods.BasicGet) -> None:
    """Handle basic.get: send one message, or get-empty."""
    name = channel.queue_name(method.queue)
    channel.check_permission("queue", name, "read")
    queue: AnyQueue = channel.vhost.accessible_queue(name, channel.connection)
    if isinstance(queue, Queue) and queue.may_get():
        message = queue.take(no_ack=False)
        _reply_to_get(channel, queue, message, queue.backing.ready_count, method.no_ack)
        queue.got(message, method.no_ack)
    else:
        _ask_for_one(channel, queue, name, method.no_ack)


def _ask_for_one(channel: Channel, queue: AnyQueue, name: str, no_ack: bool) -> None:
    """Let the channel wait for the message: another node has it, or the ring must have it first."""

    def send_request(answered: Callable[[Message | None, int], bool], refused: Refused) -> None:
        queue.get(no_ack, answered, refused)

    def got(message: Message | None, left: int) -> None:
        _reply_to_get(channel, channel.vhost.queues.get(name, queue), message, left, no_ack)

    channel.ask(methods.BASIC_GET, send_request, got)


def _reply_to_get(
    channel: Channel, queue: AnyQueue, message: Message | None, left: int, no_ack: bool
) -> None:
    channel.counters.count_get(message, no_ack)
    channel.divided.count_get(queue.name, message, no_ack)
    if message is None:
        channel.send(methods.encode_basic_get_empty())
    else:
        _send_message(channel, queue, message, left, no_ack)


def _send_message(channel: Channel, queue: AnyQueue, message: Message, left: int, no_ack: bool) -> None:
    channel.last_tag += 1
    if not no_ack:
        channel.unacked.by_tag[channel.last_tag] = (
            message, queue, None, channel.broker.clock.now_ms, channel.last_tag,
        )  # fmt: skip
    redelivered = b"\x01" if message.redelivered else b"\x00"
    address = message.envelope.deliver_suffix[1:-1]
    get_ok = _GET_OK + channel.last_tag.to_bytes(8, "big") + redelivered + address + left.to_bytes(4, "big")
    channel.send_content(get_ok, message.frames)
    if channel.traced:
        channel.trace_deliveries(queue, [message])


def flow(channel: Channel, method: methods.ChannelFlow) -> None:
    """Handle channel.flow. RabbitMQ does not permit clients to stop deliveries this way."""
    if not method.active:
        raise NotImplementedByBroker("active=false")
    channel.send(methods.encode_channel_flow_ok(True))


METHODS: dict[int, Callable[[Channel, Any], None]] = {
    methods.BASIC_QOS: qos,
    methods.BASIC_CONSUME: consume,
    methods.BASIC_CANCEL: cancel,
    methods.BASIC_GET: get,
    methods.CHANNEL_FLOW: flow,
}
