"""Confirm ledger of a channel: collects confirmed publishes and reports them in few methods.

A publish that was routed to several queues is confirmed when the last of them has confirmed it. Numbers
are collected during a turn of the loop and acknowledged together: one `basic.ack` with `multiple` covers
everything up to the oldest open number. Confirmed numbers beyond it are acknowledged one by one.
"""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.sequences.spans import Interval, interval, intervals_of, joined_intervals
from mirrormq.wire.methods import encode_basic_nack
from mirrormq.wire.runs import BASIC_ACK


def _basic_ack(number: int, multiple: bool) -> bytes:
    return BASIC_ACK + number.to_bytes(8, "big") + (b"\x01" if multiple else b"\x00")


class ConfirmLedger:
    """Open and finished publishes of one channel in confirm mode."""

    def __init__(self) -> None:
        self.next_number = 1
        self.oldest_open = 1
        """Oldest open number; everything below has been reported to the client."""
        self._shared: dict[int, int] = {}
        """Number of queues that must still confirm, for publishes routed to more than one queue."""
        self._finished: list[Interval] = []
        self._refused: set[int] = set()
        self._reported: set[int] = set()
        """Numbers reported to the client although an older one is still open."""

    @property
    def open_count(self) -> int:
        """Number of publishes not yet confirmed to the client."""
        return self.next_number - self.oldest_open

    def take_numbers(self, count: int, queues: int) -> int:
        """Number `count` publishes that go to `queues` queues each. Return the first number."""
        first = self.next_number
        self.next_number += count
        if queues > 1:
            for number in range(first, self.next_number):
                self._shared[number] = queues
        elif queues == 0:
            self._finished.append(interval(first, first + count - 1))
        return first

    def confirmed(self, first: int, last: int) -> None:
        """Record that one queue has confirmed these publishes."""
        if not self._shared:
            finished = self._finished
            if finished and finished[-1][1] + 1 == first:
                finished[-1] = interval(finished[-1][0], last)
            else:
                finished.append(interval(first, last))
            return
        for number in range(first, last + 1):
            waiting = self._shared.get(number, 1) - 1
            if waiting:
                self._shared[number] = waiting
            else:
                self._shared.pop(number, None)
                self._finished.append(interval(number, number))

    def refused(self, number: int) -> None:
        """Record that one queue has refused this publish."""
        self._refused.add(number)
        self.confirmed(number, number)

    def lowest_refused(self, first: int) -> int | None:
        """Return the first publish from `first` on that is refused and not reported yet."""
        return min([number for number in self._refused if number >= first], default=None)

    def report(self, send: Callable[[bytes], None]) -> list[Interval]:
        """Send acks and nacks for all finished publishes. Return the acknowledged ones."""
        finished, self._finished = self._finished, []
        if len(finished) > 1:
            finished = joined_intervals(finished)
        if self._refused:
            self._report_refused(finished, send)
        for first, last in finished:
            # An ack with `multiple` covers every lower number, so only the run at the oldest open number may
            # use it.
            if first == self.oldest_open:
                self.oldest_open = self._past_reported(last + 1) if self._reported else last + 1
                send(_basic_ack(last, last > first))
            else:
                for number in range(first, last + 1):
                    self._reported.add(number)
                    send(_basic_ack(number, False))
        return finished

    def _report_refused(self, finished: list[Interval], send: Callable[[bytes], None]) -> None:
        """Send nacks first, so that an ack with `multiple` may pass over them."""
        for number in sorted(self._refused):
            if any(first <= number <= last for first, last in finished):
                send(encode_basic_nack(number, False, False))
                self._refused.discard(number)
                self._reported.add(number)
        remaining = [n for first, last in finished for n in range(first, last + 1) if n not in self._reported]
        self.oldest_open = self._past_reported(self.oldest_open)
        finished[:] = intervals_of(remaining)

    def _past_reported(self, number: int) -> int:
        while number in self._reported:
            self._reported.discard(number)
            number += 1
        return number
