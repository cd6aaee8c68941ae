"""Client adapters against MirrorMQ and a real RabbitMQ: the same program, the same events."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import Callable

import pytest

from mirrormq.client.ack_batch import AckBatch
from mirrormq.client.amqp_uri import parse_amqp_uri
from mirrormq.client.client_channel import ClientChannel
from mirrormq.client.client_events import (
    ChannelOpened,
    Closed,
    CloseReason,
    Confirm,
    ConsumerCancelled,
    Delivery,
    Event,
    MethodReply,
    Opened,
    Returned,
)
from mirrormq.client.client_handshake import ClientOptions
from mirrormq.client.publisher_confirms import UnconfirmedMessages
from mirrormq.client_io.asyncio_client import AsyncioClient
from mirrormq.client_io.blocking_client import BlockingClient, connect
from mirrormq.client_io.client_socket import ChannelEnded, ConnectionEnded
from mirrormq.wire import methods
from mirrormq.wire.content import method_frame
from mirrormq.wire.properties import BasicProperties, encode_properties
from tests.client import broker_bytes
from tests.client.conftest import Broker

PROPERTIES = encode_properties(BasicProperties(delivery_mode=2, content_type="text/plain"))
DEADLINE_S = 60.0
BODIES = [b"", b"small", b"x" * 131_064, b"y" * 131_065, b"z" * 700_000, *(b"%d" % n for n in range(500))]


def publish_all(client: BlockingClient, queue: str, bodies: list[bytes]) -> None:
    client.call(methods.encode_confirm_select())
    waiting = UnconfirmedMessages[bytes]()
    for body in bodies:
        client.channel.publish("", queue, PROPERTIES, body, mandatory=True)
        waiting.add(body)
    client.flush()
    while len(waiting):
        event = client.receive()
        assert isinstance(event, Confirm) and event.accepted
        waiting.settle(event.delivery_tag, event.multiple)


def deliveries(client: BlockingClient, count: int) -> list[Delivery]:
    found: list[Delivery] = []
    while len(found) < count:
        event = client.receive()
        assert isinstance(event, Delivery)
        found.append(event)
    return found


def test_publishing_and_consuming(broker: Broker) -> None:
    with connect(broker.uri) as client:
        client.declare_queue("io", durable=True)
        publish_all(client, "io", BODIES)
        client.call(methods.encode_basic_qos(prefetch_count=1000))
        client.call(methods.encode_basic_consume("io", "c"))
        found = deliveries(client, len(BODIES))
        assert [event.body for event in found] == BODIES
        assert {event.properties for event in found} == {PROPERTIES}
        batch = AckBatch()
        for event in found:
            batch.delivered([event.delivery_tag])
        for event in found[::2]:
            batch.ack(event.delivery_tag)
        client.send(batch.take_frames(1))
        for event in found[1::2]:
            batch.ack(event.delivery_tag)
        client.send(batch.take_frames(1))
        client.call(methods.encode_basic_cancel("c", False))
        assert client.declare_queue("io", durable=True, passive=True) == 0
        client.call(methods.encode_queue_delete("io"))


def test_a_consumer_is_cancelled_when_its_queue_is_gone(broker: Broker) -> None:
    with connect(broker.uri) as client, connect(broker.uri) as other:
        client.declare_queue("gone", durable=False)
        client.call(methods.encode_basic_consume("gone", "c"))
        other.call(methods.encode_queue_delete("gone"))
        assert client.receive() == ConsumerCancelled(1, "c")


def test_an_unroutable_message_returns_before_its_confirm(broker: Broker) -> None:
    with connect(broker.uri) as client:
        client.call(methods.encode_confirm_select())
        client.channel.publish("", "nowhere", PROPERTIES, b"back", mandatory=True)
        client.flush()
        assert client.receive() == Returned(1, 312, "NO_ROUTE", "", "nowhere", PROPERTIES, b"back")
        assert client.receive() == Confirm(1, 1, False, True)


def test_names_of_any_octets_come_through(broker: Broker) -> None:
    with connect(broker.uri) as client:
        client.declare_queue("octets", durable=False)
        client.call(methods.encode_queue_bind("octets", "amq.fanout"))
        client.channel.publish("amq.fanout", "\udcff", PROPERTIES, b"body")
        client.flush()
        client.call(methods.encode_basic_consume("octets", no_ack=True))
        (event,) = deliveries(client, 1)
        assert event.routing_key == "\udcff"
        client.call(methods.encode_queue_delete("octets"))


def test_a_closed_channel_is_distinguished_from_a_closed_connection(broker: Broker) -> None:
    with connect(broker.uri) as client:
        with pytest.raises(ChannelEnded, match="NOT_FOUND") as caught:
            client.call(methods.encode_queue_declare("nowhere", passive=True))
        assert caught.value.closed.code == 404
        client.channel = client.connection.open_channel()
        client.flush()
        assert client.receive() == ChannelOpened(1)
        client.send(method_frame(1, b"\0\x3c\0\x28"))
        with pytest.raises(ConnectionEnded) as ended:
            client.receive()
        assert ended.value.closed.reason is CloseReason.SERVER


@pytest.mark.parametrize(
    ("login", "path", "reason"),
    [
        ("guest:wrong@", "", CloseReason.LOGIN_REFUSED),
        ("", "/nowhere", CloseReason.VHOST_REFUSED),
        ("", "?auth_mechanism=other", CloseReason.NO_MECHANISM),
    ],
)
def test_refusals(broker: Broker, login: str, path: str, reason: CloseReason) -> None:
    with pytest.raises(ConnectionEnded) as caught:
        connect(f"amqp://{login}127.0.0.1:{broker.broker.amqp_port}{path}")
    assert caught.value.closed.reason is reason and reason.permanent


def test_tls_with_every_mechanism(broker: Broker) -> None:
    for mechanism in ("plain", "amqplain"):
        connect(broker.tls_uri(auth_mechanism=mechanism)).close()
    pair = broker.client_pair
    uri = broker.tls_uri("", auth_mechanism="external", certfile=str(pair.certificate), keyfile=str(pair.key))
    with connect(uri) as client:
        client.declare_queue("tls", durable=True)
        publish_all(client, "tls", BODIES[:10])
        assert [client.get("tls", no_ack=True).body for _ in range(10)] == BODIES[:10]  # type: ignore[union-attr]
        assert client.get("tls") is None
        client.call(methods.encode_queue_delete("tls"))


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"cacertfile": "/nowhere.pem"}, CloseReason.TLS_FILES),
        ({"server_name_indication": "other.example"}, CloseReason.TLS_FAILED),
    ],
)
def test_a_broker_that_is_not_trusted_is_not_talked_to(
    broker: Broker, parameters: dict[str, str], reason: CloseReason
) -> None:
    with pytest.raises(ConnectionEnded) as caught:
        connect(broker.tls_uri(**parameters))
    assert caught.value.closed.reason is reason
    connect(broker.tls_uri(server_name_indication="other.example", verify="verify_none")).close()
    connect(broker.tls_uri(server_name_indication="disable")).close()


class Program:
    """Publishes with confirms, consumes and acknowledges, as reactions to events alone."""

    def __init__(self, uri: str, queue: str) -> None:
        parsed = parse_amqp_uri(uri).for_socket()
        self.client = AsyncioClient(parsed, ClientOptions.of_uri(parsed, "test"), self.handle)
        self.queue = queue
        self.channel: ClientChannel | None = None
        self.waiting = UnconfirmedMessages[bytes]()
        self.bodies: list[bytes | bytearray] = []
        self.acks = AckBatch()
        self.closed: asyncio.Future[Closed] = asyncio.get_running_loop().create_future()

    def handle(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case Opened():
                    self.channel = channel = self.client.connection.open_channel()
                    channel.request(methods.encode_queue_declare(self.queue))
                    channel.request(methods.encode_confirm_select())
                    channel.request(methods.encode_basic_consume(self.queue, "c"))
                    for body in BODIES:
                        channel.publish("", self.queue, PROPERTIES, body)
                        self.waiting.add(body)
                case Delivery():
                    self.bodies.append(event.body)
                    self.acks.delivered([event.delivery_tag])
                    self.acks.ack(event.delivery_tag)
                case Confirm():
                    self.waiting.settle(event.delivery_tag, event.multiple)
                case MethodReply(_, methods.QueueDeleteOk()):
                    self.client.close()
                case Closed():
                    self.closed.set_result(event)
        if self.channel is not None:
            self.client.connection.send(self.acks.take_frames(self.channel.number))
        if len(self.bodies) == len(BODIES) and not len(self.waiting) and self.channel is not None:
            self.channel.request(methods.encode_queue_delete(self.queue))
            self.channel = None


@pytest.mark.parametrize("secure", [False, True])
def test_the_asyncio_adapter(broker: Broker, secure: bool) -> None:
    async def run() -> Program:
        program = Program(broker.tls_uri() if secure else broker.uri, f"asyncio-{secure}")
        await program.client.open()
        async with asyncio.timeout(DEADLINE_S):
            closed = await program.closed
        assert closed.reason is CloseReason.CLIENT
        return program

    assert asyncio.run(run()).bodies == BODIES


def refusal(uri: str) -> Closed:
    async def run() -> Closed:
        parsed = parse_amqp_uri(uri)
        with pytest.raises(ConnectionEnded) as caught:
            await AsyncioClient(parsed, ClientOptions.of_uri(parsed, "test"), lambda events: None).open()
        return caught.value.closed

    return asyncio.run(run())


def test_the_asyncio_adapter_says_why_it_cannot_connect(broker: Broker) -> None:
    port = broker.broker.amqp_port
    assert refusal(f"amqp://guest:wrong@127.0.0.1:{port}").reason is CloseReason.LOGIN_REFUSED
    assert refusal(f"amqp://127.0.0.1:{port}/nowhere").reason is CloseReason.VHOST_REFUSED
    assert refusal("amqp://127.0.0.1:1").reason is CloseReason.CONNECT_FAILED
    assert refusal(f"amqps://127.0.0.1:{broker.tls_port}").reason is CloseReason.TLS_FAILED
    assert refusal(f"amqps://127.0.0.1:{port}").reason is CloseReason.TLS_FAILED


class FalseBroker:
    """A socket that answers the first client with bytes of the test's choice."""

    def __init__(self, talk: Callable[[socket.socket], None]) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._talk = talk
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> str:
        self._thread.start()
        return f"amqp://127.0.0.1:{self._server.getsockname()[1]}?connection_timeout=3000"

    def __exit__(self, *_: object) -> None:
        self._server.close()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "the client left its socket open"

    def _run(self) -> None:
        peer, _ = self._server.accept()
        with peer:
            self._talk(peer)


def _wait(done: threading.Event) -> None:
    assert done.wait(DEADLINE_S)


def test_a_silent_broker_is_waited_for_as_long_as_the_uri_says() -> None:
    done = threading.Event()
    with FalseBroker(lambda peer: _wait(done)) as uri:
        assert refusal(uri.replace("3000", "50")).reason is CloseReason.TIMEOUT
        done.set()


def test_a_waiting_client_sends_heartbeats(broker: Broker) -> None:
    with connect(f"{broker.uri}?heartbeat=1") as client:
        assert client.connection.heartbeat_s == 1
        # Both brokers end a connection that is silent for two intervals.
        assert not client.comes_within(4.0)
        assert client.declare_queue("heartbeats", durable=False, exclusive=True) == 0


def test_another_protocol_is_named() -> None:
    with FalseBroker(lambda peer: peer.sendall(b"AMQP\x00\x01\x00\x00")) as uri:
        assert refusal(uri).reason is CloseReason.WRONG_PROTOCOL
    with FalseBroker(lambda peer: peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as uri:
        assert refusal(uri).reason is CloseReason.WRONG_PROTOCOL


def test_a_broker_that_ends_the_login_without_a_word() -> None:
    def talk(peer: socket.socket) -> None:
        peer.sendall(broker_bytes.start())
        peer.recv(8)
        peer.recv(65536)

    with FalseBroker(talk) as uri:
        assert refusal(uri).reason is CloseReason.LOST
    with FalseBroker(talk) as uri, pytest.raises(ConnectionEnded, match="wrong user or password"):
        connect(uri)


def test_a_broker_that_reads_no_answers_does_not_fill_the_memory() -> None:
    flows = method_frame(1, methods.encode_channel_flow(True)) * 10_000

    def talk(peer: socket.socket) -> None:
        asked, channel_open = b"", method_frame(1, methods.encode_channel_open())
        try:
            peer.sendall(broker_bytes.handshake())
            while not asked.endswith(channel_open):
                asked += peer.recv(65536)
            peer.sendall(broker_bytes.channel_open_ok())
            while True:
                peer.sendall(flows)
        except OSError:
            return

    async def run(uri: str) -> Closed:
        closed: asyncio.Future[Closed] = asyncio.get_running_loop().create_future()

        def handle(events: list[Event]) -> None:
            if isinstance(events[0], Opened):
                client.connection.open_channel()
            if isinstance(event := events[-1], Closed):
                closed.set_result(event)

        parsed = parse_amqp_uri(uri)
        options = ClientOptions.of_uri(parsed, "test")
        client = AsyncioClient(parsed, options, handle, write_buffer_bytes_max=64 * 1024)
        await client.open()
        return await asyncio.wait_for(closed, DEADLINE_S)

    with FalseBroker(talk) as uri:
        ended = asyncio.run(run(uri))
    assert (ended.reason, "does not read" in ended.text) == (CloseReason.PROTOCOL_ERROR, True)


def test_an_attempt_that_is_given_up_leaves_no_unread_error() -> None:
    async def run() -> list[str]:
        unread: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, about: unread.append(about["message"]))
        silent = socket.create_server(("127.0.0.1", 0))
        parsed = parse_amqp_uri(f"amqp://127.0.0.1:{silent.getsockname()[1]}").for_socket()
        client = AsyncioClient(parsed, ClientOptions.of_uri(parsed, "test"), lambda events: None)
        attempt = asyncio.create_task(client.open())
        await asyncio.sleep(0)  # It is connecting now.
        attempt.cancel()
        client.abort("given up")
        await asyncio.wait([attempt])
        del client, attempt
        gc.collect()
        silent.close()
        return unread

    assert asyncio.run(run()) == []
