"""State machine of one client connection.

    connection = ClientConnection(ClientOptions())
    socket.send(connection.take_output())          the protocol header
    events = connection.receive(socket.recv())     …until Opened
    channel = connection.open_channel()
    channel.request(methods.encode_queue_declare("orders", durable=True))
    channel.publish("", "orders", properties, body)

After each call the caller writes `take_output` to the socket. `Closed` is the last event, whatever ended the
connection. A fault of the broker never raises an exception.
"""

from __future__ import annotations

from enum import Enum, auto

from mirrormq.client.client_channel import ClientChannel
from mirrormq.client.client_events import (
    Blocked,
    ClientFault,
    Closed,
    CloseReason,
    Event,
    Opened,
    Unblocked,
)
from mirrormq.client.client_handshake import (
    ClientOptions,
    choose_mechanism,
    client_properties,
    negotiate,
    sasl_response,
)
from mirrormq.client.frame_decoder import FrameDecoder
from mirrormq.client.heartbeat_timer import HeartbeatTimer
from mirrormq.errors import AmqpError
from mirrormq.wire import methods
from mirrormq.wire.content import method_frame
from mirrormq.wire.fields import Table
from mirrormq.wire.frames import FRAME_MIN_BYTES, HEARTBEAT, HEARTBEAT_FRAME, METHOD, PROTOCOL_HEADER

CLOSE_OK_CODE = 200
FRAME_ERROR_CODE = 501
ACCESS_REFUSED_CODE = 403
CHANNEL_NUMBER_MAX = 65_535
LOCALE = "en_US"


class ClientState(Enum):
    """State of a connection, named after the method that the client waits for."""

    START = auto()
    TUNE = auto()
    OPEN_OK = auto()
    OPEN = auto()
    CLOSE_OK = auto()
    CLOSED = auto()


class ClientConnection:
    """Connection, from the protocol header to its end."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self.state = ClientState.START
        self.events: list[Event] = []
        """Events that `receive` has not returned yet."""
        self.channels: dict[int, ClientChannel] = {}
        self.blocked: str | None = None
        """Reason of the broker's connection.blocked while it is in force."""
        self.server_properties: Table = {}
        self.channel_max = options.channel_max
        self.frame_max = options.frame_max
        self.heartbeat_s = 0
        self._heartbeats = HeartbeatTimer(0)
        self._output: list[bytes] = [PROTOCOL_HEADER]
        self._decoder = FrameDecoder(self)

    # -- sending --------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Append frames to the output."""
        self._output.append(data)

    def take_output(self) -> bytes:
        """Return the bytes for the socket and clear the output."""
        if not self._output:
            return b""
        self._heartbeats.note_sent()
        found, self._output = self._output, []
        return b"".join(found) if len(found) > 1 else found[0]

    def open_channel(self) -> ClientChannel:
        """Open a channel; it is usable at once, ChannelOpened follows."""
        most = self.channel_max or CHANNEL_NUMBER_MAX
        number = next((each for each in range(1, most + 1) if each not in self.channels), 0)
        if not number:
            raise ValueError(f"all {most} channels that the broker allows on this connection are open")
        channel = ClientChannel(self, number, self.options.body_bytes_max)
        self.channels[number] = channel
        return channel

    def close(self, text: str = "done") -> None:
        """Close; `Closed` follows when the broker has handled everything sent before."""
        if self.state is ClientState.OPEN:
            self.state = ClientState.CLOSE_OK
            self._send_method(methods.encode_connection_close(CLOSE_OK_CODE, text, 0, 0))

    def _send_method(self, payload: bytes) -> None:
        self.send(method_frame(0, payload))

    def channel_ended(self, number: int) -> None:
        """Free a channel number; its channel calls this."""
        del self.channels[number]

    # -- receiving ------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether the connection has ended."""
        return self.state is ClientState.CLOSED

    def receive(self, data: bytes) -> list[Event]:
        """Handle bytes from the socket; return the events."""
        if self.finished:
            return []
        self._heartbeats.note_received()
        try:
            self._decoder.feed(data)
        except ClientFault as fault:
            self._fail(fault.reason, str(fault))
        except AmqpError as error:
            self._fail(
                CloseReason.PROTOCOL_ERROR, f"the broker sent a method that cannot be read: {error.text}"
            )
        return self._take_events()

    def lost(self, text: str, reason: CloseReason = CloseReason.LOST) -> list[Event]:
        """End the connection after the socket ended or the caller aborts it; `text` is the reason for
        users."""
        if not self.finished:
            if self.state is ClientState.TUNE and reason is CloseReason.LOST:
                # Not reported as LOGIN_REFUSED: a node that fails during the login looks the same.
                text = f"{text} during login; wrong user or password?"
            self._end(Closed(reason, text))
        return self._take_events()

    def tick(self, now_s: float) -> list[Event]:
        """Send a heartbeat if one is due; end the connection if the broker is silent for two intervals.

        Call it at least every half interval, with any clock that does not go back.
        """
        if self.finished:
            return []
        if self._heartbeats.send_due(now_s):
            self.send(HEARTBEAT_FRAME)
        if self._heartbeats.silent(now_s):
            text = f"the broker sent nothing for {2 * self.heartbeat_s} s, not even a heartbeat"
            return self.lost(text, CloseReason.HEARTBEAT_TIMEOUT)
        return []

    def take_rest(self) -> bytes:
        """Return the octets of an incomplete frame, for a caller that decodes further frames itself."""
        return self._decoder.take_rest()

    def note_received(self) -> None:
        """Count bytes that the caller did not pass on as a heartbeat."""
        self._heartbeats.note_received()

    def _take_events(self) -> list[Event]:
        found, self.events = self.events, []
        return found

    def _fail(self, reason: CloseReason, text: str) -> None:
        if self.state is not ClientState.START:
            self._send_method(methods.encode_connection_close(FRAME_ERROR_CODE, "FRAME_ERROR", 0, 0))
        elif reason is not CloseReason.NO_MECHANISM:
            reason, text = CloseReason.WRONG_PROTOCOL, f"the other end does not speak AMQP 0-9-1: {text}"
        self._end(Closed(reason, text))

    def _end(self, event: Closed) -> None:
        self.state = ClientState.CLOSED
        self.channels.clear()
        self.events.append(event)

    def expects_method(self, channel: int) -> bool:
        """Whether deliveries and confirms of this channel may arrive now; the decoder calls it."""
        found = self.channels.get(channel)
        return found is not None and found.expects_method and self.state is ClientState.OPEN

    def frame(self, kind: int, channel: int, payload: bytes | memoryview) -> None:
        """Handle a frame from the decoder."""
        if channel == 0:
            if kind == METHOD:
                self._method(methods.decode_method(bytes(payload)))
            elif kind != HEARTBEAT:
                raise ClientFault(CloseReason.PROTOCOL_ERROR, "the broker sent a content on channel 0")
        elif kind == HEARTBEAT:
            raise ClientFault(CloseReason.PROTOCOL_ERROR, f"the broker sent a heartbeat on channel {channel}")
        elif (found := self.channels.get(channel)) is None:
            text = f"the broker sent a frame on channel {channel}, which is not open"
            raise ClientFault(CloseReason.PROTOCOL_ERROR, text)
        elif self.state is not ClientState.CLOSE_OK:
            found.frame(kind, payload)

    def _method(self, method: methods.Method) -> None:
        match method, self.state:
            case methods.ConnectionClose(), _:
                self._closed_by_server(method)
            case methods.ConnectionCloseOk(), ClientState.CLOSE_OK:
                self._end(Closed(CloseReason.CLIENT, "closed by the client"))
            case _, ClientState.CLOSE_OK:
                pass
            case methods.ConnectionStart(), ClientState.START:
                self._start(method)
            case methods.ConnectionTune(), ClientState.TUNE:
                self._tune(method)
            case methods.ConnectionOpenOk(), ClientState.OPEN_OK:
                self.state = ClientState.OPEN
                self.events.append(
                    Opened(self.server_properties, self.channel_max, self.frame_max, self.heartbeat_s)
                )
            case methods.ConnectionBlocked(), ClientState.OPEN:
                self.blocked = method.reason
                self.events.append(Blocked(method.reason))
            case methods.ConnectionUnblocked(), ClientState.OPEN:
                self.blocked = None
                self.events.append(Unblocked())
            case _:
                text = f"the broker sent {type(method).__name__} while {self.state.name} was expected"
                raise ClientFault(CloseReason.PROTOCOL_ERROR, text)

    def _start(self, start: methods.ConnectionStart) -> None:
        self.server_properties = start.server_properties
        mechanism = choose_mechanism(start.mechanisms, self.options)
        if mechanism is None:
            wanted, offered = " ".join(self.options.mechanisms), start.mechanisms.decode("ascii", "replace")
            text = f"the broker offers the authentication mechanisms {offered}, wanted is {wanted}"
            raise ClientFault(CloseReason.NO_MECHANISM, text)
        self.state = ClientState.TUNE
        response = sasl_response(mechanism, self.options)
        properties = client_properties(self.options)
        self._send_method(methods.encode_connection_start_ok(properties, mechanism, response, LOCALE))

    def _tune(self, tune: methods.ConnectionTune) -> None:
        options = self.options
        self.channel_max = negotiate(options.channel_max, tune.channel_max)
        self.frame_max = negotiate(options.frame_max, tune.frame_max)
        if self.frame_max < FRAME_MIN_BYTES:
            text = f"the broker allows frames of {self.frame_max} bytes, AMQP demands {FRAME_MIN_BYTES}"
            raise ClientFault(CloseReason.PROTOCOL_ERROR, text)
        self.heartbeat_s = (
            0 if options.heartbeat_s is None else negotiate(options.heartbeat_s, tune.heartbeat)
        )
        self._heartbeats = HeartbeatTimer(self.heartbeat_s)
        self._decoder.limit(self.frame_max)
        self.state = ClientState.OPEN_OK
        self._send_method(
            methods.encode_connection_tune_ok(self.channel_max, self.frame_max, self.heartbeat_s)
        )
        self._send_method(methods.encode_connection_open(options.vhost))

    def _closed_by_server(self, close: methods.ConnectionClose) -> None:
        reason = CloseReason.SERVER
        # The state shows which step the broker refused: it replies to start-ok with tune, to open with
        # open-ok.
        if self.state is ClientState.TUNE and close.reply_code == ACCESS_REFUSED_CODE:
            reason = CloseReason.LOGIN_REFUSED
        elif self.state is ClientState.OPEN_OK:
            reason = CloseReason.VHOST_REFUSED
        self._send_method(methods.encode_connection_close_ok())
        self._end(Closed(reason, close.reply_text, close.reply_code))
