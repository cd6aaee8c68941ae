"""Direct replies between nodes: sent if there is a link, and forgotten if there is none.

Nobody but the channel that asked would want them, and it cannot be told from here that they were lost; so
they are dropped where a client that does not read them would lose them too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mirrormq.queues.message import Envelope
from mirrormq.remote.publish_codec import Envelopes
from mirrormq.remote.remote_messages import (
    AboutReplies,
    DirectReply,
    DirectReplyKnown,
    DirectReplyQuery,
    RemoteRun,
)
from mirrormq.remote.stream import Stream
from mirrormq.remote.streams import Streams


class ReplyChannels(Protocol):
    """The channels of this node that wait for direct replies."""

    def deliver_reply(self, name: str, envelope: Envelope, contents: list[bytes]) -> None:
        """Hand replies to one of them, if it is there."""

    def awaits_reply(self, name: str) -> bool:
        """Is it there?"""


class Replies:
    """To and from the channels of other nodes."""

    def __init__(self, streams: Streams, channels: ReplyChannels) -> None:
        self._streams = streams
        self._channels = channels
        self._envelopes = Envelopes()
        self._question = 0
        self._asked: dict[int, tuple[Stream, Callable[[bool], object]]] = {}

    def send(self, node: str, name: str, envelope: Envelope, contents: list[bytes]) -> None:
        """Replies for a channel of another node."""
        stream = self._streams.linked.get(node)
        if stream is not None and stream.writable:
            item = DirectReply(name, RemoteRun(envelope.publish, envelope.properties, contents))
            stream.put(item, sum(map(len, contents)))

    def ask(self, node: str, name: str, answered: Callable[[bool], object]) -> None:
        """Is a channel of another node there? One that cannot be reached is not."""
        stream = self._streams.linked.get(node)
        if stream is None:
            answered(False)
            return
        self._question += 1
        self._asked[self._question] = stream, answered
        stream.put(DirectReplyQuery(self._question, name))

    def receive(self, stream: Stream, item: AboutReplies) -> None:
        """What another node says."""
        if isinstance(item, DirectReply):
            envelope = self._envelopes.get(item.run.publish, item.run.properties or b"")
            self._channels.deliver_reply(item.name, envelope, item.run.contents)
        elif isinstance(item, DirectReplyQuery):
            stream.put(DirectReplyKnown(item.question, self._channels.awaits_reply(item.name)))
        elif item.question in self._asked:
            self._asked.pop(item.question)[1](item.known)

    def lost(self, stream: Stream) -> None:
        """A node's life is over, and its channels with it."""
        for question, (asked, answered) in list(self._asked.items()):
            if asked is stream:
                del self._asked[question]
                answered(False)
