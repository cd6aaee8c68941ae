"""A queue that answers when it is told to, as one on another node does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirrormq.errors import AmqpError
from mirrormq.queues.queue import Queue
from tests.harness import Node


class SlowQueue:
    """A real queue whose answers wait in `unanswered`; everything else goes to the queue itself."""

    def __init__(self, queue: Queue) -> None:
        self.inner = queue
        self.unanswered: list[Callable[[], None]] = []
        self.refusal: AmqpError | None = None
        """What the next question is answered with."""
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

    def when_room(self, go_on: Callable[[], None]) -> None:
        self.waiting_for_room.append(go_on)

    def answer(self) -> None:
        """Answer everything that has been asked, also what is asked meanwhile."""
        while self.unanswered:
            self.unanswered.pop(0)()


def make_slow(node: Node, name: str) -> SlowQueue:
    """Put a slow queue in the place of a queue of this node."""
    vhost = node.broker.vhosts["/"]
    slow = SlowQueue(node.queue(name))
    vhost.queues[name] = slow
    vhost.router.invalidate()
    return slow
