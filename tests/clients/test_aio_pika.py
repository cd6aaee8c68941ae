"""aio-pika: robust connections through a kill -9, confirms, direct reply-to, delayed retries."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import itertools
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage, AbstractRobustConnection
from aio_pika.exceptions import DeliveryError

from tests.brokers.mirrormq import MirrorMQ
from tests.clients.support import POLL_INTERVAL_S, WAIT_S, uri

REPLIES = "amq.rabbitmq.reply-to"
RETRY_DELAY_MS = 150

HEADERS: dict[str, Any] = {
    "boolean": True,
    "integer": -5,
    "long": 2**50,
    "double": 0.25,
    "decimal": decimal.Decimal("1.50"),
    "text": "ключ",
    "timestamp": datetime.datetime(2024, 2, 29, 12, 30, 5, tzinfo=datetime.UTC),
    "table": {"inner": [1, 2.5, {"deep": "yes"}]},
    "nothing": None,
}


async def eventually(condition: Callable[[], Any], what: str) -> Any:
    """Let the loop run until `condition` gives something true."""
    deadline = asyncio.get_running_loop().time() + WAIT_S
    while not (value := condition()):
        assert asyncio.get_running_loop().time() < deadline, f"{what}: not within {WAIT_S:g} s"
        await asyncio.sleep(POLL_INTERVAL_S)
    return value


@pytest.fixture
async def robust(broker: Any) -> AsyncIterator[AbstractRobustConnection]:
    """A robust connection, closed after the test."""
    connection = await aio_pika.connect_robust(uri(broker))
    yield connection
    await connection.close()


async def test_publishes_are_confirmed_in_parallel_and_consumed(
    robust: AbstractRobustConnection, name: str
) -> None:
    channel = await robust.channel(publisher_confirms=True)
    queue = await channel.declare_queue(name, exclusive=True)
    messages = [aio_pika.Message(b"%d" % number) for number in range(200)]
    await asyncio.gather(*(channel.default_exchange.publish(message, name) for message in messages))
    assert (await queue.declare()).message_count == 200
    received = []
    async with queue.iterator() as iterator:
        async for message in iterator:
            async with message.process():
                received.append(message.body)
            if len(received) == 200:
                break
    assert received == [b"%d" % number for number in range(200)]


async def test_an_unroutable_message_is_an_error(robust: AbstractRobustConnection, name: str) -> None:
    channel = await robust.channel(publisher_confirms=True, on_return_raises=True)
    with pytest.raises(DeliveryError) as raised:
        await channel.default_exchange.publish(aio_pika.Message(b"lost"), name, mandatory=True)
    assert "NO_ROUTE" in str(raised.value)


async def test_headers_come_back_as_they_were(robust: AbstractRobustConnection, name: str) -> None:
    channel = await robust.channel()
    queue = await channel.declare_queue(name, exclusive=True)
    await channel.default_exchange.publish(aio_pika.Message(b"", headers=HEADERS), name)
    message = await queue.get(no_ack=True)
    assert message.headers == HEADERS


async def test_a_rollback_forgets_what_the_transaction_published(
    robust: AbstractRobustConnection, name: str
) -> None:
    channel = await robust.channel(publisher_confirms=False)
    queue = await channel.declare_queue(name, exclusive=True)
    with pytest.raises(RuntimeError):
        async with channel.transaction():
            await channel.default_exchange.publish(aio_pika.Message(b"forgotten"), name)
            raise RuntimeError("something went wrong")
    async with channel.transaction():
        await channel.default_exchange.publish(aio_pika.Message(b"kept"), name)
    assert (await queue.get(no_ack=True)).body == b"kept"
    assert await queue.get(fail=False) is None


async def test_remote_calls_are_answered_by_direct_reply_to(
    broker: Any, robust: AbstractRobustConnection, name: str
) -> None:
    """The server answers to a name that only the waiting channel knows; no reply queue is declared."""
    serving = await robust.channel()
    requests = await serving.declare_queue(name, exclusive=False, auto_delete=True)
    seen: list[str | None] = []

    async def serve(message: AbstractIncomingMessage) -> None:
        async with message.process():
            seen.append(message.reply_to)
            answer = aio_pika.Message(message.body[::-1], correlation_id=message.correlation_id)
            await serving.default_exchange.publish(answer, message.reply_to or "")

    await requests.consume(serve)
    caller = await aio_pika.connect(uri(broker))
    async with caller:
        channel = await caller.channel()
        replies = await channel.get_queue(REPLIES, ensure=False)
        answers: dict[str | None, bytes] = {}

        async def receive(message: AbstractIncomingMessage) -> None:
            answers[message.correlation_id] = message.body

        await replies.consume(receive, no_ack=True)
        for number in range(20):
            request = aio_pika.Message(b"request %d" % number, reply_to=REPLIES, correlation_id=str(number))
            await channel.default_exchange.publish(request, name)
        await eventually(lambda: len(answers) == 20, "answers")
    assert answers == {str(number): (b"request %d" % number)[::-1] for number in range(20)}
    assert all(reply_to and reply_to.startswith(f"{REPLIES}.") for reply_to in seen)


async def test_failed_work_is_retried_later_through_a_waiting_queue(
    robust: AbstractRobustConnection, name: str
) -> None:
    """work → rejected → waiting (TTL) → expired → work: twice, then the third attempt succeeds."""
    channel = await robust.channel()
    work = await channel.declare_queue(
        name, exclusive=True,
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-waiting"},
    )  # fmt: skip
    await channel.declare_queue(
        f"{name}-waiting", exclusive=True,
        arguments={
            "x-message-ttl": RETRY_DELAY_MS, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": name,
        },
    )  # fmt: skip
    loop = asyncio.get_running_loop()
    attempts: list[float] = []
    done: asyncio.Future[AbstractIncomingMessage] = loop.create_future()

    async def attempt(message: AbstractIncomingMessage) -> None:
        attempts.append(loop.time())
        if len(attempts) < 3:
            await message.reject(requeue=False)
        else:
            await message.ack()
            done.set_result(message)

    await work.consume(attempt)
    await channel.default_exchange.publish(aio_pika.Message(b"job"), name)
    message = await asyncio.wait_for(done, WAIT_S)
    pauses = [later - earlier for earlier, later in itertools.pairwise(attempts)]
    assert all(pause * 1000 >= RETRY_DELAY_MS - 10 for pause in pauses), pauses
    deaths: Any = message.headers["x-death"]
    assert [(death["queue"], death["reason"], death["count"]) for death in deaths] == [
        (f"{name}-waiting", "expired", 2),
        (name, "rejected", 2),
    ]
    assert (message.headers["x-first-death-queue"], message.headers["x-first-death-reason"]) == (
        name,
        "rejected",
    )


async def test_a_robust_connection_survives_the_death_of_the_node(mortal_broker: MirrorMQ, name: str) -> None:
    """After kill -9 what was confirmed is there; exchange, binding and consumer come back by themselves."""
    connection = await aio_pika.connect_robust(uri(mortal_broker, query="?reconnect_interval=0.2"))
    async with connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=5)
        exchange = await channel.declare_exchange(f"{name}-exchange", "topic", durable=True)
        queue = await channel.declare_queue(name, durable=True)
        await queue.bind(exchange, "key.#")
        for number in range(50):
            await exchange.publish(_persistent(number), f"key.{number}")
        received: list[AbstractIncomingMessage] = []

        async def receive(message: AbstractIncomingMessage) -> None:
            received.append(message)

        await queue.consume(receive)
        await eventually(lambda: len(received) == 5, "the first five deliveries")
        await asyncio.gather(*(message.ack() for message in received[:2]))
        await eventually(lambda: len(received) == 7, "two more deliveries for two acknowledgements")
        received.clear()
        await asyncio.to_thread(mortal_broker.kill)
        await asyncio.to_thread(mortal_broker.boot)
        await eventually(lambda: len(received) == 5, "deliveries after the restart")
        assert [_told(message) for message in received] == [(number, True) for number in range(2, 7)]
        await asyncio.wait_for(exchange.publish(_persistent(50), "key.50"), WAIT_S)
        await _consume_the_rest(received)
        assert sorted(int(message.body) for message in received) == list(range(2, 51))


def _told(message: AbstractIncomingMessage) -> tuple[int, bool]:
    return int(message.body), bool(message.redelivered)


def _has_more_than(received: list[AbstractIncomingMessage], count: int) -> bool:
    return len(received) > count


async def _consume_the_rest(received: list[AbstractIncomingMessage]) -> None:
    """Acknowledge what came and what that brings, until the message published last."""
    for number in range(49):
        await eventually(partial(_has_more_than, received, number), "the next delivery")
        await received[number].ack()


def _persistent(number: int) -> aio_pika.Message:
    return aio_pika.Message(b"%d" % number, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
