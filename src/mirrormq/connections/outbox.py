"""The write side of a connection: what waits for the client, and what stops because it waits.

Two kinds of output, with a limit each, because a client may neglect either:

    deliveries   stop when the socket's buffer is full, or when one turn has added as much as that
    replies      when they are not fetched, the client's requests wait: the connection is held

They are counted apart so that a consumer with a full buffer can still publish and acknowledge. Many
clients send in one thread and read in the same one later; if deliveries alone could hold their
requests, they would wait for us and we for them.
"""

from __future__ import annotations

from collections.abc import Callable

from mirrormq import limits
from mirrormq.broker.traffic_counters import Traffic
from mirrormq.clock import Clock


class Outbox:
    """Output on its way to one client."""

    def __init__(self, clock: Clock, has_output: Callable[[], None], has_room: Callable[[], None]) -> None:
        self._clock = clock
        self._has_output = has_output
        """Asks for `take_output` at the end of the turn."""
        self._has_room = has_room
        """Deliveries that have waited may go on."""
        self.writable = True
        """False while as much waits to be written as may: no deliveries then."""
        self.reply_bytes = 0
        """What is not a delivery and was not taken by the socket while it had room."""
        self.traffic = Traffic()
        self.last_sent_ms = self._clock.now_ms
        self._output: list[bytes] = []
        self._delivered_bytes = 0
        self._socket_full = False

    def output(self) -> list[bytes]:
        """Where raw bytes for the client go; asking for it means that some will be added."""
        if not self._output:
            self._has_output()
        return self._output

    def send(self, channel: int, payload: bytes) -> None:
        """A method frame."""
        self.reply_bytes += len(payload)
        self.output().append(
            b"\x01" + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"
        )

    def delivered(self, size_bytes: int) -> None:
        """Deliveries were added to the output; when there are enough, the next ones wait."""
        self._delivered_bytes += size_bytes
        if self._delivered_bytes > limits.SOCKET_OUTPUT_BYTES_MAX:
            self.writable = False

    def take_output(self) -> list[bytes]:
        """Everything to write, in order."""
        output, self._output = self._output, []
        self.last_sent_ms = self._clock.now_ms
        self._delivered_bytes = 0
        if not self._socket_full:
            self.drained()
        return output

    def filled(self) -> None:
        """The socket's buffer is full: the client does not read."""
        self._socket_full = True
        self.writable = False

    def drained(self) -> None:
        """The socket takes data again."""
        self._socket_full = False
        self.reply_bytes = 0
        if not self.writable:
            self.writable = True
            self._has_room()
