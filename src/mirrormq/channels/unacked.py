"""Unacknowledged deliveries of a channel, by delivery tag.

Tags grow by one, so a dictionary and the lowest tag that may be in it are enough. Settling "everything up
to n" walks the tags once, and each tag is visited only once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.queues.message import Message
from mirrormq.queues.queue import AnyQueue

if TYPE_CHECKING:
    from mirrormq.channels.consumer import Consumer


Delivery = tuple[Message, AnyQueue, "Consumer | None", int, int]
"""Delivered message, its queue, its consumer (none for basic.get), delivery time (ms), tag. A plain tuple,
because one is created for every delivery."""


class Unacked:
    """Deliveries that wait for their acknowledgement."""

    __slots__ = ("_lowest", "by_tag")

    def __init__(self) -> None:
        self.by_tag: dict[int, Delivery] = {}
        self._lowest = 1

    def __len__(self) -> int:
        return len(self.by_tag)

    def take(self, tag: int, multiple: bool) -> list[Delivery] | None:
        """Remove the deliveries that an ack, nack or reject names. Return None if the tag does not exist,
        which `multiple` requires as well; with `multiple`, tag 0 means all."""
        if not multiple:
            delivery = self.by_tag.pop(tag, None)
            return None if delivery is None else [delivery]
        if tag == 0:
            return self.take_all()
        if tag not in self.by_tag:
            return None
        pop = self.by_tag.pop
        deliveries = [delivery for number in range(self._lowest, tag + 1) if (delivery := pop(number, None))]
        self._lowest = tag + 1
        return deliveries

    @property
    def oldest_ms(self) -> int | None:
        """Time of the oldest delivery, in milliseconds; None if there is none."""
        for delivery in self.by_tag.values():
            return delivery[3]
        return None

    def take_all(self) -> list[Delivery]:
        """Remove and return everything, oldest first."""
        deliveries = [self.by_tag[tag] for tag in sorted(self.by_tag)]
        if self.by_tag:
            self._lowest = max(self.by_tag) + 1
        self.by_tag.clear()
        return deliveries

    def put_back(self, deliveries: list[Delivery]) -> None:
        """Restore deliveries that a rolled back transaction had settled."""
        self.by_tag.update((delivery[4], delivery) for delivery in deliveries)
        self.by_tag = dict(sorted(self.by_tag.items()))
        self._lowest = min([self._lowest, *self.by_tag])
