"""Direct replies between nodes: sent if there is a link, dropped if there is none.

Only the requesting channel needs a reply, and this node cannot notify it of a loss. Replies are therefore
dropped in the same cases in which a client that does not read would lose them, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mirrormq.peers.requests import PendingRequests
from mirrormq.queues.message import Envelope
from mirrormq.remote.publish_codec import Envelopes
from mirrormq.remote.remote_messages import (
    AboutReplies,
    DirectReply,
    DirectReplyKnown,
    DirectReplyQuery,
    ItemStream,
    ItemStreams,
    RemoteRun,
)


class ReplyChannels(Protocol):
    """Channels of this node that wait for direct replies."""

    def deliver_reply(self, name: str, envelope: Envelope, contents: list[bytes]) -> None:
        """Deliver replies to a channel, if it exists."""

    def awaits_reply(self, name: str) -> bool:
        """Return whether the channel exists."""


class Replies:
    """Direct replies to and from the channels of other nodes."""

    def __init__(self, streams: ItemStreams, channels: ReplyChannels) -> None:
        self._streams = streams
        self._channels = channels
        self._envelopes = Envelopes()
        self._pending = PendingRequests[tuple[ItemStream, Callable[[bool], object]]]()

    def send(self, node: str, name: str, envelope: Envelope, contents: list[bytes]) -> None:
        """Send replies to a channel of another node."""
        stream = self._streams.linked.get(node)
        if stream is not None and stream.writable:
            item = DirectReply(name, RemoteRun(envelope.publish, envelope.properties, contents))
            stream.put(item, sum(map(len, contents)))

    def ask(self, node: str, name: str, answered: Callable[[bool], object]) -> None:
        """Query whether a channel of another node exists. Report False if the node is not connected."""
        stream = self._streams.linked.get(node)
        if stream is None:
            answered(False)
            return
        stream.put(DirectReplyQuery(self._pending.add((stream, answered)), name))

    def receive(self, stream: ItemStream, item: AboutReplies) -> None:
        """Process a reply, a query, or the result of a query."""
        if isinstance(item, DirectReply):
            envelope = self._envelopes.get(item.run.publish, item.run.properties or b"")
            self._channels.deliver_reply(item.name, envelope, item.run.contents)
        elif isinstance(item, DirectReplyQuery):
            stream.put(DirectReplyKnown(item.request_id, self._channels.awaits_reply(item.name)))
        elif (pending := self._pending.take(item.request_id)) is not None:
            pending[1](item.known)

    def lost(self, stream: ItemStream) -> None:
        """Fail the queries to a node whose incarnation has ended."""
        for _, answered in self._pending.take_if(lambda pending: pending[0] is stream):
            answered(False)
