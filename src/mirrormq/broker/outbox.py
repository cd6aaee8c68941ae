"""Output of a connection: bytes that wait for the client, and the work that stops meanwhile.

There are two kinds of output with one limit each, because a client may neglect either:

    deliveries   stop when the socket's buffer is full, or when one turn has added as much as that
    replies      when the client does not fetch them, its requests wait: the connection is held

They are counted separately, so that a consumer with a full buffer can still publish and acknowledge. Many
clients send in one thread and read later in the same thread. If deliveries alone could hold their
requests, client and node would wait for each other.
"""

from __future__ import annotations

from typing import Any

from mirrormq import limits
from mirrormq.broker.traffic_counters import Traffic
from mirrormq.clock import Clock


class Outbox:
    """Output buffer of one client."""

    def __init__(self, clock: Clock, writing: dict[Any, None]) -> None:
        self._clock = clock
        self._writing = writing
        """Outboxes with output: the runtime calls `take_output` at the end of the turn."""
        self.writable = True
        """False while pending output is at its limit; the consumer gets no deliveries then."""
        self.reply_bytes = 0
        """Bytes of replies that the socket has not accepted while it had room."""
        self.traffic = Traffic()
        self.last_sent_ms = self._clock.now_ms
        self._output: list[bytes] = []
        self._delivered_bytes = 0
        self._socket_full = False

    def output(self) -> list[bytes]:
        """Return the list for raw output bytes. The caller must append to it."""
        if not self._output:
            self._writing[self] = None
        return self._output

    def send(self, channel: int, payload: bytes) -> None:
        """Append a method frame."""
        self.reply_bytes += len(payload)
        self.output().append(
            b"\x01" + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"
        )

    def delivered(self, size_bytes: int) -> None:
        """Count delivered bytes. At the limit further deliveries wait."""
        self._delivered_bytes += size_bytes
        if self._delivered_bytes > limits.SOCKET_OUTPUT_BYTES_MAX:
            self.writable = False

    def take_output(self) -> list[bytes]:
        """Return all pending output in order, and clear it."""
        output, self._output = self._output, []
        self.last_sent_ms = self._clock.now_ms
        self._delivered_bytes = 0
        if not self._socket_full:
            self.drained()
        return output

    def filled(self) -> None:
        """Stop deliveries: the socket's buffer is full because the client does not read."""
        self._socket_full = True
        self.writable = False

    def drained(self) -> None:
        """Continue deliveries: the socket accepts data again."""
        self._socket_full = False
        self.reply_bytes = 0
        if not self.writable:
            self.writable = True
            self._make_room()

    def _make_room(self) -> None:
        """Continue postponed deliveries."""
