"""Queues whose master is this node, for clients of other nodes."""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.queues.message import Message
from mirrormq.queues.queue import Queue
from mirrormq.remote.peer_session import PeerSession
from mirrormq.remote.remote_limits import RemoteLimits
from mirrormq.remote.remote_messages import ItemStream, ToMaster


class ServedQueue:
    """Queue with its peer sessions in one epoch of this master."""

    def __init__(self, queue: Queue, queue_id: int, epoch: int) -> None:
        self.queue = queue
        self.queue_id = queue_id
        self.epoch = epoch
        self.clients: dict[ItemStream, PeerSession] = {}


class ServedQueues:
    """All served queues, and a stash of items for epochs that this node does not know yet."""

    def __init__(self, is_gone: Callable[[int], bool], limits: RemoteLimits) -> None:
        self._is_gone = is_gone
        self._limits = limits
        self._served: dict[int, ServedQueue] = {}
        self._epochs: dict[int, int] = {}
        """Latest known epoch of each queue, with this node or another one as master."""
        self._stash: dict[int, list[tuple[ItemStream, ToMaster]]] = {}
        self._unreported: dict[PeerSession, None] = {}

    # -- epochs ---------------------------------------------------------------------------------

    def serve(self, queue_id: int, epoch: int, queue: Queue) -> None:
        """Serve the queue as its master, and process stashed items of this epoch."""
        before = self._served.get(queue_id)
        served = self._served[queue_id] = ServedQueue(queue, queue_id, epoch)
        # A new epoch of the same master: its queue object stays, so the deliveries of old sessions must move.
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
        """Stop serving the queue, because another node is master or the queue is deleted. Its messages are
        not requeued."""
        self._served.pop(queue_id, None)
        if self._is_gone(queue_id):
            self._epochs.pop(queue_id, None)
            self._stash.pop(queue_id, None)

    def mastered_elsewhere(self, queue_id: int, epoch: int) -> None:
        """Record that another node is master, and drop stashed items of earlier epochs."""
        self._epochs[queue_id] = epoch
        self._served.pop(queue_id, None)
        waiting = self._stash.pop(queue_id, [])
        if later := [(stream, item) for stream, item in waiting if item.epoch > epoch]:
            self._stash[queue_id] = later

    # -- items from other nodes -----------------------------------------------------------------

    def receive(self, stream: ItemStream, item: ToMaster) -> None:
        """Pass an item to its queue, stash it if its epoch is not known yet, or drop it."""
        served = self._served.get(item.queue_id)
        if served is not None and served.epoch == item.epoch:
            self._client(served, stream).receive(item)
        elif item.epoch > self._epochs.get(item.queue_id, 0) and not self._is_gone(item.queue_id):
            self._stash.setdefault(item.queue_id, []).append((stream, item))

    def _client(self, served: ServedQueue, stream: ItemStream) -> PeerSession:
        client = served.clients.get(stream)
        if client is None:
            client = PeerSession(
                served.queue, served.queue_id, served.epoch, stream, self._mark_unreported, self._limits
            )
            served.clients[stream] = client
        return client

    def _mark_unreported(self, client: PeerSession) -> None:
        self._unreported[client] = None

    def report(self) -> None:
        """Report the results of publishes to their nodes at the end of a turn."""
        if self._unreported:
            for client in self._unreported:
                client.report()
            self._unreported.clear()

    def lost(self, stream: ItemStream) -> None:
        """End the sessions of a node whose incarnation has ended."""
        producer = f"{stream.peer}#{stream.incarnation}"
        for served in list(self._served.values()):
            client = served.clients.pop(stream, None)
            if client is not None:
                client.lost()
            served.queue.intake.forget_producers(lambda name: name == producer)
        for queue_id, waiting in list(self._stash.items()):
            rest = [(other, item) for other, item in waiting if other is not stream]
            if rest:
                self._stash[queue_id] = rest
            else:
                del self._stash[queue_id]

    def nodes_lost(self, is_over: Callable[[str], bool]) -> None:
        """Drop awaited claims of ended incarnations, also of nodes without a stream."""
        for served in list(self._served.values()):
            if served.queue.kept.awaiting:
                served.queue.kept.lost(is_over)

    def epoch_of(self, queue_id: int) -> int:
        """Return the epoch in which a queue is served; 0 if it is not."""
        served = self._served.get(queue_id)
        return served.epoch if served is not None else 0

    def held(self, queue_id: int) -> list[Message]:
        """Return a queue's messages that consumers of other nodes hold."""
        served = self._served.get(queue_id)
        clients = served.clients.values() if served is not None else ()
        return [message for client in clients for message in client.held()]
