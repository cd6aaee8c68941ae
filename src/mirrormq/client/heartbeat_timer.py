"""Heartbeat timer of one connection: decisions only, the caller brings the time."""

from __future__ import annotations

SILENCE_INTERVALS = 2
"""Intervals of silence after which AMQP takes the other side for dead."""

SILENCE_MARGIN_S = 1.0
"""Added to it: a tick of the caller, and the delay of a busy machine."""


class HeartbeatTimer:
    """Tell when to send a heartbeat and when to give up. Traffic of any kind counts as a heartbeat."""

    __slots__ = ("_heard", "_heard_at_s", "_interval_s", "_sent", "_sent_at_s")

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        """0: no heartbeats."""
        self._sent = self._heard = True
        self._sent_at_s = self._heard_at_s = 0.0

    def note_sent(self) -> None:
        """Something was written since the last tick."""
        self._sent = True

    def note_received(self) -> None:
        """Something was read since the last tick."""
        self._heard = True

    def send_due(self, now_s: float) -> bool:
        """Whether nothing was sent for half an interval."""
        if self._sent:
            self._sent, self._sent_at_s = False, now_s
        return 0 < self._interval_s <= 2 * (now_s - self._sent_at_s)

    def silent(self, now_s: float) -> bool:
        """Whether the other side must be taken for dead."""
        if self._heard:
            self._heard, self._heard_at_s = False, now_s
        allowed_s = SILENCE_INTERVALS * self._interval_s + SILENCE_MARGIN_S
        return self._interval_s > 0 and now_s - self._heard_at_s > allowed_s
