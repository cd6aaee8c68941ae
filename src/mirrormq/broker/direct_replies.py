"""Names of direct replies: each contains the node of the channel that waits for them."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Protocol

from mirrormq.queues.message import Envelope

QUEUE_NAME = "amq.rabbitmq.reply-to"
PREFIX = QUEUE_NAME + "."


class ReplyReceiver(Protocol):
    """Channel that waits for direct replies."""

    def deliver(self, envelope: Envelope, contents: list[bytes]) -> None:
        """Send replies to the client."""


def reply_name(node: str, unique_name: str) -> str:
    """Return the reply name of a channel of a node."""
    return f"{PREFIX}{urlsafe_b64encode(node.encode()).rstrip(b'=').decode()}.{unique_name}"


def node_of(name: str) -> str | None:
    """Return the node of the channel that a reply name contains; None if the name is no reply name."""
    if not name.startswith(PREFIX):
        return None
    coded = name.removeprefix(PREFIX).partition(".")[0]
    try:
        return urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode() or None
    except ValueError:
        return None
