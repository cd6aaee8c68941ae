"""The queues of this node, for clients of other nodes."""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.queues.message import Message
from mirrormq.queues.queue import Queue
from mirrormq.remote.peer_session import PeerSession
from mirrormq.remote.remote_messages import ToMaster
from mirrormq.remote.stream import Stream


class ServedQueue:
    """One queue while this node is its master."""

    def __init__(self, queue: Queue, queue_id: int, epoch: int) -> None:
        self.queue = queue
        self.queue_id = queue_id
        self.epoch = epoch
        self.clients: dict[Stream, PeerSession] = {}


class ServedQueues:
    """All of them, and what was said to queues that this node does not know to be its own yet."""

    def __init__(self, is_gone: Callable[[int], bool]) -> None:
        self._is_gone = is_gone
        self._served: dict[int, ServedQueue] = {}
        self._epochs: dict[int, int] = {}
        """The latest tenure of each queue that this node has heard of, here or elsewhere."""
        self._stash: dict[int, list[tuple[Stream, ToMaster]]] = {}
        self._with_news: dict[PeerSession, None] = {}

    # -- tenures --------------------------------------------------------------------------------

    def serve(self, queue_id: int, epoch: int, queue: Queue) -> None:
        """This node is master."""
        before = self._served.get(queue_id)
        served = self._served[queue_id] = ServedQueue(queue, queue_id, epoch)
        if before is not None and before.queue is queue:
            for stream, client in before.clients.items():
                if queue.settings.redeliver_lost:
                    self._client(served, stream).inherit(client.end())
                else:
                    client.lost()
        self._epochs[queue_id] = epoch
        for stream, item in self._stash.pop(queue_id, []):
            self.receive(stream, item)

    def stop(self, queue_id: int) -> None:
        """This node is no longer master, or the queue is deleted: its messages are nobody's business here."""
        self._served.pop(queue_id, None)
        if self._is_gone(queue_id):
            self._epochs.pop(queue_id, None)
            self._stash.pop(queue_id, None)

    def mastered_elsewhere(self, queue_id: int, epoch: int) -> None:
        """Another node is master: what was said to this one as an earlier master is past."""
        self._epochs[queue_id] = epoch
        self._served.pop(queue_id, None)
        waiting = self._stash.pop(queue_id, [])
        if later := [(stream, item) for stream, item in waiting if item.epoch > epoch]:
            self._stash[queue_id] = later

    # -- what other nodes say -------------------------------------------------------------------

    def receive(self, stream: Stream, item: ToMaster) -> None:
        """To the queue, or into the stash, or nowhere."""
        served = self._served.get(item.queue_id)
        if served is not None and served.epoch == item.epoch:
            self._client(served, stream).receive(item)
        elif item.epoch > self._epochs.get(item.queue_id, 0) and not self._is_gone(item.queue_id):
            self._stash.setdefault(item.queue_id, []).append((stream, item))

    def _client(self, served: ServedQueue, stream: Stream) -> PeerSession:
        client = served.clients.get(stream)
        if client is None:
            client = PeerSession(served.queue, served.queue_id, served.epoch, stream, self._tell)
            served.clients[stream] = client
        return client

    def _tell(self, client: PeerSession) -> None:
        self._with_news[client] = None

    def report(self) -> None:
        """At the end of a turn: tell publishers what has become of their messages."""
        if self._with_news:
            for client in self._with_news:
                client.report()
            self._with_news.clear()

    def lost(self, stream: Stream) -> None:
        """A node's life is over."""
        producer = f"{stream.peer}#{stream.incarnation}"
        for served in list(self._served.values()):
            client = served.clients.pop(stream, None)
            if client is not None:
                client.lost()
            served.queue.forget_producers(lambda name: name == producer)
        for queue_id, waiting in list(self._stash.items()):
            rest = [(other, item) for other, item in waiting if other is not stream]
            if rest:
                self._stash[queue_id] = rest
            else:
                del self._stash[queue_id]

    def nodes_lost(self, is_over: Callable[[str], bool]) -> None:
        """Lives of nodes are over, also of those that there was no stream with."""
        for served in list(self._served.values()):
            if served.queue.kept.awaiting:
                served.queue.kept.lost(is_over)

    def epoch_of(self, queue_id: int) -> int:
        """The tenure in which a queue is served; 0: in none."""
        served = self._served.get(queue_id)
        return served.epoch if served is not None else 0

    def held(self, queue_id: int) -> list[Message]:
        """A queue's messages that are out with consumers of other nodes."""
        served = self._served.get(queue_id)
        clients = served.clients.values() if served is not None else ()
        return [message for client in clients for message in client.held()]
