"""Acknowledgements of one consuming channel, collected and sent as few frames.

RabbitMQ replies with 406 to an ack of a delivery that is already settled, also if `multiple` is set and older
deliveries are not settled. Each frame therefore names a delivery that no earlier frame has named.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from mirrormq.wire import methods
from mirrormq.wire.content import method_frame


class AckBatch:
    """Unsettled deliveries; acks wait for the next `take_frames`."""

    def __init__(self) -> None:
        self._open: dict[int, None] = {}
        """Delivery tags that the broker regards as unacked, oldest first."""
        self._acked: set[int] = set()
        """Delivery tags whose ack is not sent yet."""
        self._nacks: list[tuple[int, bool]] = []

    @property
    def open_count(self) -> int:
        """Number of deliveries that the broker regards as unacked."""
        return len(self._open)

    def delivered(self, delivery_tags: Iterable[int]) -> None:
        """Add deliveries that have to be acknowledged."""
        self._open.update(dict.fromkeys(delivery_tags))

    def ack(self, delivery_tag: int) -> None:
        """Acknowledge with the next frames."""
        if delivery_tag in self._open:
            self._acked.add(delivery_tag)

    def nack(self, delivery_tag: int, *, requeue: bool) -> None:
        """Refuse with the next frames."""
        if delivery_tag in self._open and delivery_tag not in self._acked:
            del self._open[delivery_tag]
            self._nacks.append((delivery_tag, requeue))

    def take_frames(self, channel: int) -> bytes:
        """Return the frames that settle what was acked and nacked since the last call."""
        # Refusals first: a frame with `multiple` behind them would acknowledge them.
        frames = [
            method_frame(channel, methods.encode_basic_nack(tag, False, requeue))
            for tag, requeue in self._nacks
        ]
        self._nacks.clear()
        # One multiple ack covers the acked prefix; no frame has named its last delivery before.
        acked, waiting = self._acked, self._open
        if not acked:
            return b"".join(frames)
        if len(acked) == len(waiting):
            prefix = list(waiting)
        else:
            prefix = list(takewhile(acked.__contains__, waiting))
        if prefix:
            frames.append(method_frame(channel, methods.encode_basic_ack(prefix[-1], True)))
        highest = prefix[-1] if prefix else 0
        if len(prefix) < len(acked):
            frames += [
                method_frame(channel, methods.encode_basic_ack(tag, False))
                for tag in sorted(acked)
                if tag > highest
            ]
        for tag in acked:
            del waiting[tag]
        acked.clear()
        return b"".join(frames)
