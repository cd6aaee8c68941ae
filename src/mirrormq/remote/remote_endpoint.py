"""This node's side of everything that goes on between clients of one node and queues of another.

    as the node of clients       a RemoteQueue for each queue whose master is elsewhere
    as a master                  a PeerSession for each node that uses a queue of this one
    with each living node        a Stream, which survives links

It belongs to one life of this node. Whoever decides tenures (the vhost, as it follows the metadata) tells it:

    serve(queue_id, epoch, queue)     this node is master: take in what others say to it
    stop_serving(queue_id)            it is no longer, or the queue is deleted
    remote_queue(…)                   another node is: give me the queue's face
    lost(node, life)                  a node's life is over

News of a tenure may reach this node after the first words of a client's node that has heard already. They
wait in a stash until it does, and are dropped if a later tenure comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from mirrormq.queues.message import Message
from mirrormq.queues.publish_ids import PublishOrigin
from mirrormq.queues.queue import Queue
from mirrormq.queues.queue_interface import Pumped
from mirrormq.queues.queue_settings import QueueSettings
from mirrormq.remote import remote_messages as m
from mirrormq.remote.queue_ref import QueueRef
from mirrormq.remote.remote_queue import RemoteQueue
from mirrormq.remote.replies import Replies, ReplyChannels
from mirrormq.remote.served_queues import ServedQueues
from mirrormq.remote.stream import Stream
from mirrormq.remote.streams import Streams


class RepairPeer(Protocol):
    """One side of the repair of damaged messages."""

    def receive(self, stream: Stream, item: m.AboutRepairs) -> None:
        """Answer a request for stored messages, or use the answer to one."""


class RemoteHost(ReplyChannels, Protocol):
    """What it needs of the broker."""

    def wake(self, queue: Pumped) -> None:
        """Call `pump` at the end of this turn."""

    def queue_is_gone(self, queue_id: int) -> bool:
        """Was there a queue of this number that is deleted by now?"""

    @property
    def repairs(self) -> RepairPeer:
        """Repair of damaged messages."""


class RemoteEndpoint:
    """Queues of other nodes for this node's clients, and this node's queues for others."""

    def __init__(
        self, node: str, incarnation: int, host: RemoteHost, send: Callable[[str, m.RemoteMessage], None]
    ) -> None:
        self._node = node
        self.producer = f"{node}#{incarnation}"
        """Who numbers this node's publishes."""
        self.unsettled_bytes = 0
        """Publishes of this node, over all queues, that no master has settled."""
        self.wake = host.wake
        self._host = host
        self._serving = ServedQueues(host.queue_is_gone)
        self._streams = Streams(incarnation, send, self._lost, self._nodes_lost)
        self.replies = Replies(self._streams, host)
        self._queues: dict[int, RemoteQueue] = {}
        self._numbers: dict[int, int] = {}
        """The next publish number, by queue."""
        self._key = 0
        self._waiting_for_room: list[tuple[RemoteQueue, Callable[[], None]]] = []

    # -- tenures --------------------------------------------------------------------------------

    def serve(self, queue_id: int, epoch: int, queue: Queue) -> None:
        """This node is master of the queue."""
        queue.forget_producers(self._streams.is_over)
        self._serving.serve(queue_id, epoch, queue)

    def stop_serving(self, queue_id: int) -> None:
        """This node is no longer master, or the queue is deleted."""
        self._serving.stop(queue_id)
        if self._host.queue_is_gone(queue_id):
            self._numbers.pop(queue_id, None)

    def remote_queue(
        self, place: QueueRef, master: str, incarnation: int, settings: QueueSettings
    ) -> RemoteQueue:
        """The face of a queue whose master is another node, in one of its lives."""
        self._serving.mastered_elsewhere(place.queue_id, place.epoch)
        queue = RemoteQueue(self, self._streams.to(master, incarnation), place, settings)
        self._queues[place.queue_id] = queue
        return queue

    def served_epoch(self, queue_id: int) -> int:
        """The tenure in which this node serves a queue; 0: in none."""
        return self._serving.epoch_of(queue_id)

    def held(self, queue_id: int) -> list[Message]:
        """What is out with clients of other nodes."""
        return self._serving.held(queue_id)

    def lost(self, node: str, incarnation: int) -> None:
        """A node's life is over, and those before it."""
        self._streams.lost(node, incarnation)

    def is_over(self, holder: str) -> bool:
        """Is this the name of a node's life that has ended?"""
        own = holder.rpartition("#")[0] == self._node
        return holder != self.producer if own else self._streams.is_over(holder)

    @property
    def linked(self) -> Mapping[str, Stream]:
        """Streams of the nodes that there are links to."""
        return self._streams.linked

    # -- links ----------------------------------------------------------------------------------

    def up(self, peer: str) -> None:
        """There is a new link to a node."""
        self._streams.up(peer)

    def down(self, peer: str) -> None:
        """The link is gone."""
        self._streams.down(peer)

    def receive(self, peer: str, message: m.RemoteMessage) -> None:
        """A message from another node. An item that something of ours fails at costs itself, not those that
        came with it: they will not come again."""
        if isinstance(message, m.StreamHello):
            self._streams.hello(peer, message)
            return
        received = self._streams.receive(peer, message)
        if received is not None:
            stream, items = received
            failures: list[Exception] = []
            for item in items:
                try:
                    self._take(stream, item)
                except Exception as error:
                    failures.append(error)
            self.resume_publishers()
            if failures:
                raise failures[0]

    def _take(self, stream: Stream, item: m.Item) -> None:
        if isinstance(item, m.ToMaster):
            self._serving.receive(stream, item)
        elif isinstance(item, m.AboutReplies):
            self.replies.receive(stream, item)
        elif isinstance(item, m.AboutRepairs):
            self._host.repairs.receive(stream, item)
        else:
            queue = self._queues.get(item.queue_id)
            if queue is not None and queue.place.epoch == item.epoch:
                queue.receive(item)

    def _lost(self, stream: Stream) -> None:
        self._serving.lost(stream)
        self.replies.lost(stream)

    def _nodes_lost(self) -> None:
        self._serving.nodes_lost(self.is_over)

    # -- turns ----------------------------------------------------------------------------------

    def send_early(self) -> None:
        """Send what does not depend on this node's disk."""
        if self._streams.linked:
            for stream in list(self._streams.linked.values()):
                stream.flush()

    def send_late(self) -> None:
        """At the end of a turn, when what was written has been flushed as far as it needs to be: also what
        was delivered, and what has become of publishes."""
        self._serving.report()
        if self._streams.linked:
            for stream in list(self._streams.linked.values()):
                stream.flush(late=True)

    # -- for remote queues ----------------------------------------------------------------------

    def next_key(self) -> int:
        """A name for a question or a consumer."""
        self._key += 1
        return self._key

    def number_publishes(self, queue_id: int, count: int, origin: PublishOrigin | None = None) -> int:
        """The first number for this node's next publishes to a queue, unless they have some already."""
        if origin is not None and origin.producer == self.producer:
            return origin.first_number
        number = self._numbers.get(queue_id, 1)
        self._numbers[queue_id] = number + count
        return number

    def forget(self, queue: RemoteQueue) -> None:
        """A tenure has ended."""
        if self._queues.get(queue.place.queue_id) is queue:
            del self._queues[queue.place.queue_id]
        if queue.deleted:
            self._numbers.pop(queue.place.queue_id, None)

    def when_room(self, queue: RemoteQueue, go_on: Callable[[], None]) -> None:
        """Somebody waits to publish."""
        self._waiting_for_room.append((queue, go_on))

    def resume_publishers(self) -> None:
        """There may be room. Not to be said in the middle of a handover: what is published now must not
        overtake what was published before and will be published again, or that would be taken for known."""
        if not self._waiting_for_room:
            return
        waiting, self._waiting_for_room = self._waiting_for_room, []
        for queue, go_on in waiting:
            if queue.full and not queue.detached:
                self._waiting_for_room.append((queue, go_on))
            else:
                go_on()
