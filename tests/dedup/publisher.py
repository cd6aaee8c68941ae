"""A publisher that numbers its messages, and never knows whether they arrived."""

from __future__ import annotations

from collections.abc import Iterable

import pika


class Numbered:
    """Publishes with confirms under one producer name."""

    def __init__(self, uri: str, producer: str = "job-1") -> None:
        self.connection = pika.BlockingConnection(pika.URLParameters(uri))
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()
        self._producer = producer

    def publish(self, queue: str, ids: Iterable[int], *, exchange: str = "", mode: int = 2) -> None:
        """Each is confirmed before the next; pika raises if one is not."""
        for number in ids:
            headers = {"x-producer": self._producer, "x-publish-id": number}
            properties = pika.BasicProperties(headers=headers, delivery_mode=mode)
            self.channel.basic_publish(exchange, queue, b"%d" % number, properties, mandatory=True)

    def drain(self, queue: str) -> list[int]:
        """The numbers of what is ready, first to last; they are gone then."""
        found: list[int] = []
        while True:
            method, _, body = self.channel.basic_get(queue, auto_ack=True)
            if method is None:
                return found
            found.append(int(body))

    def close(self) -> None:
        self.connection.close()
