"""Remote endpoint: this node's side of the traffic between clients of one node and queues of another.

    as the node of clients       a RemoteQueue for each queue whose master is another node
    as a master                  a PeerSession for each node that uses a queue of this one
    with each running node       a Stream, which outlasts peer links

It exists for one incarnation of this node. The vhost, which follows the metadata, calls:

    serve(queue_id, epoch, queue)     this node is master: accept items from other nodes
    stop_serving(queue_id)            this node is not master any longer, or the queue is deleted
    remote_queue(…)                   another node is master: return the queue object for it
    lost(node, incarnation)           an incarnation of a node has ended

A client's node may learn of a new epoch before the master itself does. Items of an epoch that this node does
not know yet are stashed until it does. They are dropped if a later epoch comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from mirrormq.peers.stream_frames import StreamHello
from mirrormq.queues.message import Message
from mirrormq.queues.publish_ids import PublishOrigin
from mirrormq.queues.queue import Queue
from mirrormq.queues.queue_interface import Pumped
from mirrormq.queues.queue_settings import QueueSettings
from mirrormq.remote import remote_messages as m
from mirrormq.remote.queue_ref import QueueRef
from mirrormq.remote.remote_limits import DEFAULT_LIMITS, RemoteLimits
from mirrormq.remote.remote_queue import RemoteQueue
from mirrormq.remote.replies import Replies, ReplyChannels
from mirrormq.remote.served_queues import ServedQueues


class RepairPeer(Protocol):
    """One side of the repair of damaged messages."""

    def receive(self, stream: m.ItemStream, item: m.AboutRepairs) -> None:
        """Reply to a request for stored messages, or use a reply."""


class RemoteHost(ReplyChannels, Protocol):
    """Functions of the broker that the remote endpoint uses."""

    def wake(self, queue: Pumped) -> None:
        """Call `pump` at the end of this turn."""

    def queue_is_gone(self, queue_id: int) -> bool:
        """Return whether the queue with this id existed and is deleted."""

    @property
    def repairs(self) -> RepairPeer:
        """Repair of damaged messages."""


class RemoteEndpoint:
    """Queues of other nodes for this node's clients, and this node's queues for other nodes."""

    def __init__(
        self,
        node: str,
        incarnation: int,
        host: RemoteHost,
        send: Callable[[str, m.RemoteMessage], None],
        limits: RemoteLimits = DEFAULT_LIMITS,
    ) -> None:
        self._node = node
        self.limits = limits
        self.producer = f"{node}#{incarnation}"
        """Producer name for this node's publishes: node and incarnation."""
        self.unsettled_bytes = 0
        """Bytes of this node's publishes, over all queues, that no master has settled."""
        self.wake = host.wake
        self._host = host
        self._serving = ServedQueues(host.queue_is_gone, limits)
        self._streams = m.ItemStreams(incarnation, send, self._lost, self._nodes_lost, limits)
        self.replies = Replies(self._streams, host)
        self._queues: dict[int, RemoteQueue] = {}
        self._numbers: dict[int, int] = {}
        """Next publish number, by queue."""
        self._key = 0
        self._waiting_for_room: list[tuple[RemoteQueue, Callable[[], None]]] = []

    # -- epochs ---------------------------------------------------------------------------------

    def serve(self, queue_id: int, epoch: int, queue: Queue) -> None:
        """Serve the queue as its master."""
        queue.intake.forget_producers(self._streams.is_over)
        self._serving.serve(queue_id, epoch, queue)

    def stop_serving(self, queue_id: int) -> None:
        """Stop serving the queue, because another node is master or the queue is deleted."""
        self._serving.stop(queue_id)
        if self._host.queue_is_gone(queue_id):
            self._numbers.pop(queue_id, None)

    def remote_queue(
        self, place: QueueRef, master: str, incarnation: int, settings: QueueSettings
    ) -> RemoteQueue:
        """Create the queue object for a queue whose master is another node, in one of its incarnations."""
        self._serving.mastered_elsewhere(place.queue_id, place.epoch)
        queue = RemoteQueue(self, self._streams.to(master, incarnation), place, settings)
        self._queues[place.queue_id] = queue
        return queue

    def served_epoch(self, queue_id: int) -> int:
        """Return the epoch in which this node serves a queue; 0 if it does not."""
        return self._serving.epoch_of(queue_id)

    def held(self, queue_id: int) -> list[Message]:
        """Return the messages of a queue that clients of other nodes hold."""
        return self._serving.held(queue_id)

    def lost(self, node: str, incarnation: int) -> None:
        """End the streams to incarnations of a node up to this one."""
        self._streams.lost(node, incarnation)

    def is_over(self, holder: str) -> bool:
        """Return whether this holder's incarnation has ended."""
        own = holder.rpartition("#")[0] == self._node
        return holder != self.producer if own else self._streams.is_over(holder)

    @property
    def linked(self) -> Mapping[str, m.ItemStream]:
        """Streams of the nodes with a peer link."""
        return self._streams.linked

    # -- links ----------------------------------------------------------------------------------

    def up(self, peer: str) -> None:
        """Start the stream over a new peer link."""
        self._streams.up(peer)

    def down(self, peer: str) -> None:
        """Suspend the stream after its peer link went down."""
        self._streams.down(peer)

    def receive(self, peer: str, message: m.RemoteMessage) -> None:
        """Process a message from another node. An exception in one item must not stop the other items of a
        frame: they do not come again."""
        if isinstance(message, StreamHello):
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

    def _take(self, stream: m.ItemStream, item: m.Item) -> None:
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

    def _lost(self, stream: m.ItemStream) -> None:
        self._serving.lost(stream)
        self.replies.lost(stream)

    def _nodes_lost(self) -> None:
        self._serving.nodes_lost(self.is_over)

    # -- turns ----------------------------------------------------------------------------------

    def send_early(self) -> None:
        """Send items that do not depend on this node's disk."""
        for stream in [stream for stream in self._streams.linked.values() if stream.has_items]:
            stream.flush()

    def send_late(self) -> None:
        """Send all items at the end of a turn, after the flush: deliveries and publish results too."""
        self._serving.report()
        for stream in [stream for stream in self._streams.linked.values() if stream.has_items]:
            stream.flush(late=True)

    # -- for remote queues ----------------------------------------------------------------------

    def next_key(self) -> int:
        """Return a new key for a request or a consumer."""
        self._key += 1
        return self._key

    def number_publishes(self, queue_id: int, count: int, origin: PublishOrigin | None = None) -> int:
        """Return the first number for this node's next publishes to a queue, or the one that they already
        have."""
        if origin is not None and origin.producer == self.producer:
            return origin.first_number
        number = self._numbers.get(queue_id, 1)
        self._numbers[queue_id] = number + count
        return number

    def forget(self, queue: RemoteQueue) -> None:
        """Remove a queue object whose epoch has ended."""
        if self._queues.get(queue.place.queue_id) is queue:
            del self._queues[queue.place.queue_id]
        if queue.deleted:
            self._numbers.pop(queue.place.queue_id, None)

    def when_room(self, queue: RemoteQueue, resume: Callable[[], None]) -> None:
        """Call `resume` once the queue is no longer full."""
        self._waiting_for_room.append((queue, resume))

    def resume_publishers(self) -> None:
        """Resume waiting publishers of queues that have room. Must not run during a handover: a new publish
        would overtake publishes that are sent again, and the master would take these for duplicates."""
        if not self._waiting_for_room:
            return
        waiting, self._waiting_for_room = self._waiting_for_room, []
        for queue, resume in waiting:
            if queue.full and not queue.detached:
                self._waiting_for_room.append((queue, resume))
            else:
                resume()
