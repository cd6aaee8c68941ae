"""Heartbeat timer of one connection: pure decisions, the caller passes the time."""

from __future__ import annotations

SILENCE_INTERVALS = 2
"""Intervals of silence after which AMQP declares the other side dead."""

SILENCE_MARGIN_S = 1.0
"""Margin on top: one tick of the caller, and the delay of a busy machine."""


class HeartbeatTimer:
    """Decide when to send a heartbeat and when the connection has failed. Any traffic counts as a
    heartbeat."""

    __slots__ = ("_interval_s", "_received", "_received_at_s", "_sent", "_sent_at_s")

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        """0: no heartbeats."""
        self._sent = self._received = True
        self._sent_at_s = self._received_at_s = 0.0

    def note_sent(self) -> None:
        """Record that bytes were written since the last tick."""
        self._sent = True

    def note_received(self) -> None:
        """Record that bytes were read since the last tick."""
        self._received = True

    def send_due(self, now_s: float) -> bool:
        """Whether nothing was sent for half an interval."""
        if self._sent:
            self._sent, self._sent_at_s = False, now_s
        return 0 < self._interval_s <= 2 * (now_s - self._sent_at_s)

    def silent(self, now_s: float) -> bool:
        """Whether the other side has failed."""
        if self._received:
            self._received, self._received_at_s = False, now_s
        allowed_s = SILENCE_INTERVALS * self._interval_s + SILENCE_MARGIN_S
        return self._interval_s > 0 and now_s - self._received_at_s > allowed_s
