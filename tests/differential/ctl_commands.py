"""Short names for what scripts say most often. Each is one `call` or `send`; nothing is hidden."""

from __future__ import annotations

from typing import Any

from tests.differential.codec import Method


class Verbs:
    """Mixed into a channel."""

    def call(self, method: str, **fields: Any) -> Method:
        raise NotImplementedError

    def send(self, method: str, **fields: Any) -> None:
        raise NotImplementedError

    def wait_for_hidden_confirms(self) -> None:
        raise NotImplementedError

    def queue(self, queue: str, arguments: dict[str, Any] | None = None, **flags: bool) -> Method:
        return self.call("queue.declare", queue=queue, **flags, **_optional(arguments=arguments))

    def passive(self, queue: str) -> Method:
        """Return the number of messages, this channel's own publishes included."""
        self.wait_for_hidden_confirms()
        return self.call("queue.declare", queue=queue, passive=True)

    def exchange(
        self, exchange: str, kind: str = "direct", arguments: dict[str, Any] | None = None, **flags: bool
    ) -> Method:
        return self.call(
            "exchange.declare", exchange=exchange, type=kind, **flags, **_optional(arguments=arguments)
        )

    def bind(
        self, queue: str, exchange: str, key: str = "", arguments: dict[str, Any] | None = None
    ) -> Method:
        return self.call(
            "queue.bind", queue=queue, exchange=exchange, routing_key=key, **_optional(arguments=arguments)
        )

    def unbind(
        self, queue: str, exchange: str, key: str = "", arguments: dict[str, Any] | None = None
    ) -> Method:
        return self.call(
            "queue.unbind", queue=queue, exchange=exchange, routing_key=key, **_optional(arguments=arguments)
        )

    def bind_exchange(
        self, destination: str, source: str, key: str = "", arguments: dict[str, Any] | None = None
    ) -> Method:
        return self.call(
            "exchange.bind",
            destination=destination,
            source=source,
            routing_key=key,
            **_optional(arguments=arguments),
        )

    def consume(
        self, queue: str, tag: str = "", arguments: dict[str, Any] | None = None, **flags: bool
    ) -> Method:
        return self.call(
            "basic.consume", queue=queue, consumer_tag=tag, **flags, **_optional(arguments=arguments)
        )

    def cancel(self, tag: str) -> Method:
        return self.call("basic.cancel", consumer_tag=tag)

    def get(self, queue: str, **flags: bool) -> Method:
        return self.call("basic.get", queue=queue, **flags)

    def qos(self, count: int, *, everywhere: bool = False, size: int = 0) -> Method:
        return self.call(
            "basic.qos", prefetch_count=count, **_optional(**{"global": everywhere}, prefetch_size=size)
        )

    def ack(self, tag: int, **flags: bool) -> None:
        self.send("basic.ack", delivery_tag=tag, **flags)

    def nack(self, tag: int, **flags: bool) -> None:
        self.send("basic.nack", delivery_tag=tag, **flags)

    def reject(self, tag: int, **flags: bool) -> None:
        self.send("basic.reject", delivery_tag=tag, **flags)

    def confirm(self) -> Method:
        return self.call("confirm.select")

    def delete(self, queue: str, **flags: bool) -> Method:
        return self.call("queue.delete", queue=queue, **flags)


def _optional(**fields: Any) -> dict[str, Any]:
    """Only what was said."""
    return {name: value for name, value in fields.items() if value}
