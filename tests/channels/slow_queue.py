"""Queue that replies on demand, like a queue on another node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirrormq.errors import AmqpError
from mirrormq.queues.queue import Queue
from tests.harness import Node


class SlowQueue:
    """Real queue whose replies wait in `unanswered`; everything else goes to the queue itself."""

    def __init__(self, queue: Queue) -> None:
        self.inner = queue
        self.unanswered: list[Callable[[], None]] = []
        self.refusal: AmqpError | None = None
        """Error that the next request gets as reply."""
        self.full = False
        self.congested = False
        self.waiting_for_room: list[Callable[[], None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def _ask(self, question: Callable[..., None], *values: Any) -> None:
        *said, answered, refused = values
        if self.refusal is not None:
            error, self.refusal = self.refusal, None
            self.unanswered.append(lambda: refused(error))
        else:
            self.unanswered.append(lambda: question(*said, answered, refused))

    def get(self, *values: Any) -> None:
        self._ask(self.inner.get, *values)

    def count(self, *values: Any) -> None:
        self._ask(self.inner.count, *values)

    def purge(self, *values: Any) -> None:
        self._ask(self.inner.purge, *values)

    def check_deletion(self, *values: Any) -> None:
        self._ask(self.inner.check_deletion, *values)

    def subscribe(self, *values: Any) -> None:
        self._ask(self.inner.subscribe, *values)

    def when_room(self, resume: Callable[[], None]) -> None:
        self.waiting_for_room.append(resume)

    def answer(self) -> None:
        """Reply to all requests, including those made meanwhile."""
        while self.unanswered:
            self.unanswered.pop(0)()


def make_slow(node: Node, name: str) -> SlowQueue:
    """Replace a queue of this node by a slow queue."""
    vhost = node.broker.vhosts["/"]
    slow = SlowQueue(node.queue(name))
    vhost.queues[name] = slow
    vhost.router.invalidate()
    return slow
