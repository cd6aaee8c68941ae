"""Context of a script: connections and channels that are ready to use, an administrator, ways to wait."""

from __future__ import annotations

import string
import time
from collections.abc import Callable
from typing import Any

from tests.brokers.admin import Admin
from tests.differential.client import FRAME_MAX, Channel, Connection, Stopped
from tests.differential.codec import PROTOCOL_HEADER, Method
from tests.differential.transcript import CAPABILITIES, Transcript

POLL_DEADLINE_S = 60.0
POLL_PAUSE_S = 0.02


class Context:
    """One run of one script on one broker."""

    def __init__(self, vhost: str, port: int, node_name: str, admin: Admin) -> None:
        self.vhost = vhost
        self.transcript = Transcript(node_name)
        self.admin = _Spoken(admin, self.transcript, vhost)
        self._port = port
        self._connections: list[Connection] = []
        self._opened: list[Channel] = []
        self._observer: Connection | None = None
        self._first: Connection | None = None

    # -- connections and channels --------------------------------------------------------------------

    def raw(self) -> Connection:
        """A socket on which nothing has been said yet."""
        name = string.ascii_uppercase[len(self._connections)]
        connection = Connection(self._port, name, self.transcript)
        self._connections.append(connection)
        return connection

    def connect(
        self,
        user: str = "guest",
        password: str = "guest",
        vhost: str | None = None,
        capabilities: dict[str, Any] | None = None,
        channel_max: int = 2047,
        frame_max: int = FRAME_MAX,
    ) -> Connection:
        """An open connection. A handshake that works leaves no trace, one that fails is written down."""
        connection = self.raw()
        shake(
            connection,
            user,
            password,
            self.vhost if vhost is None else vhost,
            CAPABILITIES if capabilities is None else capabilities,
            channel_max,
            frame_max,
        )
        return connection

    def refused(self, user: str = "guest", password: str = "guest") -> None:
        """A handshake that the broker is to refuse; its refusal is written down."""
        try:
            self.connect(user, password)
        except Stopped:
            return
        self.transcript.add("- the connection was let in")

    @property
    def connection(self) -> Connection:
        """The script's first connection, opened when first needed."""
        if self._first is None:
            self._first = self.connect()
        return self._first

    def channel(
        self, connection: Connection | None = None, number: int = 0, *, plain: bool = False
    ) -> Channel:
        """An open channel, on the script's first connection or another one; `plain`: see client.py."""
        connection = connection or self.connection
        channel = connection.channel(number or max(connection.channels) + 1)
        if channel.hidden_call("channel.open") is None:
            channel.connection.zero.flush()
            raise Stopped(f"{channel.name} could not be opened")
        if not plain:
            channel.confirm_secretly()
        self._opened.append(channel)
        return channel

    # -- waiting -------------------------------------------------------------------------------------

    def settle(self, *queues: str, on: list[Channel] | None = None) -> None:
        """Wait until all that is on its way through `queues` has reached the channels, and write it down."""
        channels = [channel for channel in (on or self._opened) if not channel.closed]
        for channel in channels:
            channel.wait_for_hidden_confirms()
        for queue in queues:
            for channel in channels:
                channel.hidden_call("queue.declare", queue=queue, passive=True)
        for channel in channels:
            channel.hidden_call("exchange.declare", exchange="amq.direct", passive=True)
        for channel in channels:
            channel.flush()
        for connection in dict.fromkeys(channel.connection for channel in channels):
            connection.zero.flush()

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Poll until `holds`; only that it came true (or never did) is written down."""
        deadline = time.monotonic() + POLL_DEADLINE_S
        while not holds():
            if time.monotonic() > deadline:
                raise Stopped(f"never came true: {what}")
            time.sleep(POLL_PAUSE_S)
        self.transcript.add(f"- {what}")

    def until_count(self, queue: str, count: int) -> None:
        """Wait until the queue has this many ready messages."""
        self.until(f"{queue} has {count} messages", lambda: self._count(queue) == count)

    def until_gone(self, queue: str) -> None:
        self.until(f"{queue} is gone", lambda: self._count(queue) is None)

    def until_got(self, channel: Channel, queue: str) -> Method:
        """basic.get until there is something; only the last try is written down."""
        deadline = time.monotonic() + POLL_DEADLINE_S
        while self._count(queue) == 0 and time.monotonic() < deadline:
            time.sleep(POLL_PAUSE_S)
        return channel.get(queue, no_ack=True)

    def observe(self, method: str, **fields: Any) -> Method | None:
        """A hidden round trip on a connection the script does not know of."""
        if self._observer is None:
            self._observer = Connection(self._port, "observer", Transcript("-"))
            shake(self._observer, "guest", "guest", self.vhost, CAPABILITIES, 2047, FRAME_MAX)
        channel = self._observer.channel(1)
        channel.hidden_call("channel.open")
        answer = channel.hidden_call(method, **fields)
        if answer is None:
            channel.flush()
        else:
            channel.hidden_call("channel.close")
        self._observer.channels.pop(1)
        return answer

    def _count(self, queue: str) -> int | None:
        answer = self.observe("queue.declare", queue=queue, passive=True)
        return None if answer is None else int(answer.message_count)

    # -- the end -------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Write down what nobody read."""
        mark = len(self.transcript.lines)
        self.settle()
        if len(self.transcript.lines) > mark:
            self.transcript.lines.insert(mark, "- unread:")

    def close(self) -> None:
        for connection in [*self._connections, *([self._observer] if self._observer else [])]:
            if not connection.ended:
                try:
                    connection.zero.hidden_call("connection.close", reply_code=200)
                except Stopped:
                    pass
                connection.end()


def shake(
    connection: Connection,
    user: str,
    password: str,
    vhost: str,
    capabilities: dict[str, Any],
    channel_max: int,
    frame_max: int,
) -> None:
    """The whole handshake, silent unless something goes wrong."""
    zero = connection.zero
    connection.send_silently(PROTOCOL_HEADER)
    expect(zero, "connection.start")
    hush = zero.log
    zero.log = Transcript("-")
    try:
        zero.send(
            "connection.start-ok",
            client_properties={"capabilities": capabilities},
            mechanism="PLAIN",
            response=f"\0{user}\0{password}",
            locale="en_US",
        )
        expect(zero, "connection.tune")
        zero.send("connection.tune-ok", channel_max=channel_max, frame_max=frame_max, heartbeat=0)
        zero.send("connection.open", virtual_host=vhost)
    finally:
        zero.log = hush
    expect(zero, "connection.open-ok")


def expect(zero: Channel, method: str) -> bool:
    """Take one method off the inbox in silence; anything else is written down and stops the script."""
    while not zero.inbox:
        if not zero.connection.pump(time.monotonic() + POLL_DEADLINE_S):
            raise Stopped(f"{zero.name}: no {method}")
    heard = zero.inbox[0]
    if isinstance(heard, Method) and heard.name == method:
        zero.inbox.popleft()
        return True
    zero.flush()
    if not zero.connection.ended:
        zero.connection.read_to_end()
    raise Stopped(f"{zero.name}: no {method}")


class _Spoken:
    """The administrator, with each order written into the transcript and the script's vhost filled in."""

    def __init__(self, admin: Admin, transcript: Transcript, vhost: str) -> None:
        self._admin, self._transcript, self._vhost = admin, transcript, vhost

    def __getattr__(self, name: str) -> Callable[..., None]:
        order = getattr(self._admin, name)

        def flush_operations(*arguments: Any) -> None:
            self._transcript.add(f"admin {name} " + " ".join(repr(argument) for argument in arguments))
            if name in Admin.OF_A_VHOST:
                order(self._vhost, *arguments)
            else:
                order(*arguments)

        return flush_operations
