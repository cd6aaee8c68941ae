"""A blocking AMQP client on a bare socket: says anything, right or wrong, and writes down what it hears.

One `Connection` holds a socket and sorts incoming frames into one inbox per channel; nothing is written to
the transcript until the script reads that channel. So the transcript's order is the script's own order, and
how frames of different channels happen to interleave on the wire leaves no trace.

Reading never sleeps. A script either expects a number of methods (`read`, `call`, `confirms`) or asks for
quiet (`Context.settle`), which makes hidden round trips through channels and queues and returns when all
replies are in: whatever was on its way before has then arrived.

A passive declare alone is no such round trip: RabbitMQ's queues answer it ahead of publishes that wait in
their mailbox. So channels are put into confirm mode behind the script's back (unless it opens them `plain`),
and quiet begins when every publish has been confirmed.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tests.differential import codec
from tests.differential.codec import BODY, HEADER, HEARTBEAT, METHOD, METHODS, Method
from tests.differential.ctl_commands import Verbs
from tests.differential.transcript import Transcript, show_content, show_received, show_sent, show_tags

REPLY_DEADLINE_S = 60.0
"""Far beyond any reply on a loaded machine; reached only when the expected thing never comes."""
FRAME_MAX = 131072


class Stopped(Exception):
    """The script cannot go on: what it waits for will not come."""


@dataclass
class Event:
    """Something heard that is not a method: EOF, a protocol header, a heartbeat."""

    text: str


class Connection:
    """One socket. Channel 0 is a channel like the others."""

    def __init__(self, port: int, name: str, transcript: Transcript) -> None:
        self.name, self.log = name, transcript
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=REPLY_DEADLINE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.channels: dict[int, Channel] = {}
        self.ended = False
        self.answers_closes = True
        """Send close-ok by itself when the broker closes; a script may want to wait with that."""
        self.heartbeats = 0
        self._buffer = bytearray()
        self._gathered: bytearray | None = None
        self.zero = Channel(self, 0)

    # -- sending -------------------------------------------------------------------------------------

    def send_raw(self, data: bytes, say: str = "") -> None:
        """Any bytes; `say` is what the transcript calls them."""
        self.log.add(f"{self.name} > {say or data.hex(' ')}")
        self.send_silently(data)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let everything that is sent within leave in one write."""
        self._gathered = bytearray()
        yield
        gathered, self._gathered = bytes(self._gathered), None
        self.send_silently(gathered)

    def send_silently(self, data: bytes) -> None:
        if self._gathered is not None:
            self._gathered += data
            return
        with suppress(OSError):  # the broker has closed; what it said before is still to be read
            self.socket.sendall(data)

    def send_frame(
        self, kind: int, channel: int, payload: bytes, *, end: int = codec.FRAME_END, say: str
    ) -> None:
        self.send_raw(codec.frame(kind, channel, payload, end), say)

    # -- receiving -----------------------------------------------------------------------------------

    def pump(self, deadline: float) -> bool:
        """Take in what the socket has, waiting until `deadline`; False when nothing came in time."""
        if self.ended:
            return False
        if not select.select([self.socket], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        try:
            data = self.socket.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            self._end()
            return True
        self._buffer += data
        while self._next_frame():
            pass
        return True

    def _next_frame(self) -> bool:
        head = bytes(self._buffer[:8])
        if head[:4] == b"AMQP" and len(head) == 8:
            del self._buffer[:8]
            self.zero.inbox.append(Event(f"protocol header {head.hex(' ')}"))
            return True
        if len(head) < 7:
            return False
        kind, channel, size = head[0], int.from_bytes(head[1:3], "big"), int.from_bytes(head[3:7], "big")
        if len(self._buffer) < size + 8:
            return False
        payload = bytes(self._buffer[7 : 7 + size])
        if self._buffer[7 + size] != codec.FRAME_END:
            raise Stopped(f"frame without its end octet from the broker on {self.name}.{channel}")
        del self._buffer[: size + 8]
        self.channel(channel).take(kind, payload)
        return True

    def _end(self) -> None:
        self.ended = True
        self.socket.close()
        self.zero.inbox.append(Event("EOF"))

    def channel(self, number: int) -> Channel:
        """The channel object, without opening the channel."""
        return self.channels.get(number) or Channel(self, number)

    @property
    def ended_or_ending(self) -> bool:
        """The socket has ended, or the broker has announced that it will."""
        return self.ended or any(
            isinstance(heard, Method) and heard.name == "connection.close" for heard in self.zero.inbox
        )

    # -- convenience ---------------------------------------------------------------------------------

    def read_to_end(self) -> None:
        """Write down everything up to the end of the socket, answering a close on the way."""
        while not (self.ended and not self.zero.inbox):
            self.zero.read()

    def end(self) -> None:
        """Leave at once, without a word in the transcript."""
        self.ended = True
        self.socket.close()


class Channel(Verbs):
    """One channel number on one connection."""

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection, self.number = connection, number
        self.log = connection.log
        self.name = f"{connection.name}.{number}"
        self.inbox: deque[Method | Event] = deque()
        self.closed = False
        self.published = 0
        self.unconfirmed: set[int] = set()
        self._content: tuple[Method, int] | None = None
        self._confirming = False
        self._confirms_hidden = False
        connection.channels[number] = self

    # -- sending -------------------------------------------------------------------------------------

    def send(self, method: str, **fields: Any) -> None:
        """A method, without waiting for anything."""
        named = _hyphened(fields)
        self.log.add(f"{self.name} > {show_sent(method, named)}")
        self.connection.send_silently(codec.frame(METHOD, self.number, codec.encode_method(method, named)))

    def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes | str = b"",
        *,
        mandatory: bool = False,
        immediate: bool = False,
        **properties: Any,
    ) -> None:
        data = body.encode() if isinstance(body, str) else body
        fields: dict[str, Any] = {"exchange": exchange, "routing-key": routing_key}
        fields |= {"mandatory": True} if mandatory else {}
        fields |= {"immediate": True} if immediate else {}
        named = _hyphened(properties)
        self.log.add(f"{self.name} > {show_sent('basic.publish', fields)} {show_content(named, data)}")
        frames = [
            codec.frame(METHOD, self.number, codec.encode_method("basic.publish", fields)),
            codec.frame(HEADER, self.number, codec.encode_header(len(data), named)),
        ]
        step = FRAME_MAX - 8
        frames += [codec.frame(BODY, self.number, data[at : at + step]) for at in range(0, len(data), step)]
        if self._confirming:
            self.published += 1
            self.unconfirmed.add(self.published)
        self.connection.send_silently(b"".join(frames))

    # -- receiving -----------------------------------------------------------------------------------

    def take(self, kind: int, payload: bytes) -> None:
        """A frame for this channel came off the socket."""
        if kind == HEARTBEAT:
            self.connection.heartbeats += 1
            return
        if kind == METHOD:
            method = codec.decode_method(payload)
            if METHODS[method.name].content:
                self._content = (method, -1)
            elif self._confirms_hidden and method.name in ("basic.ack", "basic.nack"):
                self._resolve(method)
            else:
                self.inbox.append(method)
            return
        assert self._content is not None, f"content frame of kind {kind} on {self.name} without a method"
        method, left = self._content
        if kind == HEADER:
            left, method.properties = codec.decode_header(payload)
            method.body = b""
        else:
            assert method.body is not None
            method.body += payload
            left -= len(payload)
        self._content = (method, left)
        if left == 0:
            self.inbox.append(method)
            self._content = None

    def read(self, count: int = 1) -> Method:
        """Wait for the next methods on this channel and write each down; the last one is returned."""
        heard: Method | Event | None = None
        for _ in range(count):
            heard = self.note(self.next())
        return heard if isinstance(heard, Method) else Method("", {})

    def call(self, method: str, **fields: Any) -> Method:
        """Send, then read up to the answer or up to whatever ends the channel."""
        if self.closed or self.connection.ended:
            raise Stopped(f"{self.name} is closed, cannot send {method}")
        if method == "confirm.select":
            self._confirming, self._confirms_hidden = True, False
        self.send(method, **fields)
        if fields.get("nowait"):
            return Method("", {})
        answers = METHODS[method].answers
        while True:
            heard = self.note(self.next())
            if isinstance(heard, Method):
                if heard.name in answers or self.closed:
                    return heard
            elif heard.text == "EOF":
                return Method("", {})

    def confirms(self) -> None:
        """Wait until every publish so far is acked or nacked; written as one line, tags apart."""
        acked: set[int] = set()
        nacked: set[int] = set()
        while self.unconfirmed:
            heard = self.next()
            if isinstance(heard, Method) and heard.name in ("basic.ack", "basic.nack"):
                tags = self._resolve(heard)
                (acked if heard.name == "basic.ack" else nacked).update(tags)
                continue
            self.note(heard)
            if self.closed or self.connection.ended:
                break
        self._note_confirms(acked, nacked)

    def _note_confirms(self, acked: set[int], nacked: set[int]) -> None:
        self.log.add(f"{self.name} < confirms: ack {show_tags(acked)}, nack {show_tags(nacked)}")

    def flush(self) -> None:
        """Write down what has arrived, confirms last and as one line."""
        acked: set[int] = set()
        nacked: set[int] = set()
        while self.inbox:
            heard = self.inbox.popleft()
            if isinstance(heard, Method) and heard.name in ("basic.ack", "basic.nack"):
                (acked if heard.name == "basic.ack" else nacked).update(self._resolve(heard))
            else:
                self.note(heard)
        if acked or nacked:
            self._note_confirms(acked, nacked)

    def note(self, heard: Method | Event) -> Method | Event:
        """Write one thing down, and answer it if it is a close."""
        zero = self.connection.zero
        if isinstance(heard, Method) and heard.name.startswith("connection.") and self is not zero:
            zero.note(heard)
            return heard
        if isinstance(heard, Event):
            self.log.add(f"{self.connection.name} < {heard.text}")
            return heard
        line = f"{self.name} < {show_received(heard)}"
        if heard.body is not None:
            line += " " + show_content(heard.properties, heard.body)
        self.log.add(line)
        if heard.name in ("basic.ack", "basic.nack"):
            self._resolve(heard)
        self._react(heard)
        return heard

    def _react(self, heard: Method) -> None:
        if heard.name == "channel.close":
            self.closed = True
            if self.connection.answers_closes:
                self._answer("channel.close-ok")
        elif heard.name == "channel.close-ok":
            self.closed = True
        elif heard.name == "connection.close-ok":
            for channel in self.connection.channels.values():
                channel.closed = True
        elif heard.name == "connection.close":
            for channel in self.connection.channels.values():
                channel.closed = True
            if self.connection.answers_closes:
                self._answer("connection.close-ok")
                self.connection.read_to_end()

    def _answer(self, method: str) -> None:
        self.connection.send_silently(codec.frame(METHOD, self.number, codec.encode_method(method, {})))

    def _resolve(self, heard: Method) -> set[int]:
        upto = heard.fields["delivery-tag"]
        tags = {tag for tag in self.unconfirmed if tag <= upto} if heard.fields["multiple"] else {upto}
        self.unconfirmed -= tags
        return tags

    def next(self) -> Method | Event:
        """The next thing on this channel; the end of the connection is heard on every channel."""
        deadline = time.monotonic() + REPLY_DEADLINE_S
        while not self.inbox:
            zero = self.connection.zero
            if self is not zero and zero.inbox and self.connection.ended_or_ending:
                return zero.inbox.popleft()
            if self.connection.ended:
                raise Stopped(f"{self.name}: the connection has ended")
            if not self.connection.pump(deadline) and time.monotonic() >= deadline:
                raise Stopped(f"{self.name}: nothing came")
        return self.inbox.popleft()

    # -- hidden round trips --------------------------------------------------------------------------

    def confirm_secretly(self) -> None:
        """Learn when publishes have reached their queues, without a trace."""
        self.hidden_call("confirm.select")
        self._confirming = self._confirms_hidden = True

    def wait_for_hidden_confirms(self) -> None:
        """Return when every publish so far has reached its queues, or the channel has ended."""
        deadline = time.monotonic() + REPLY_DEADLINE_S
        while self._confirms_hidden and self.unconfirmed and not self.ending:
            if not self.connection.pump(deadline) and time.monotonic() >= deadline:
                raise Stopped(f"{self.name}: publishes {show_tags(self.unconfirmed)} were not confirmed")

    @property
    def ending(self) -> bool:
        return (
            self.closed
            or self.connection.ended_or_ending
            or any(isinstance(heard, Method) and heard.name == "channel.close" for heard in self.inbox)
        )

    def hidden_call(self, method: str, **fields: Any) -> Method | None:
        """A round trip that leaves no trace; None if the channel or connection ended instead."""
        if self.closed or self.connection.ended:
            return None
        self.connection.send_silently(
            codec.frame(METHOD, self.number, codec.encode_method(method, _hyphened(fields)))
        )
        answers = METHODS[method].answers
        deadline = time.monotonic() + REPLY_DEADLINE_S
        looked_at = 0
        while True:
            while looked_at < len(self.inbox):
                heard = self.inbox[looked_at]
                if isinstance(heard, Method) and heard.name in answers:
                    del self.inbox[looked_at]
                    return heard
                if isinstance(heard, Method) and heard.name == "channel.close":
                    return None
                looked_at += 1
            if self.connection.ended_or_ending:
                return None
            if not self.connection.pump(deadline) and time.monotonic() >= deadline:
                raise Stopped(f"{self.name}: no answer to a hidden {method}")


def _hyphened(fields: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "-"): value for name, value in fields.items()}
