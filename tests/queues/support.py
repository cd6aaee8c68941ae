"""Messages made of real bytes, and limits so small that queues page all the time."""

from __future__ import annotations

import random

import pytest

from mirrormq import limits
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.message import NEVER, Message
from mirrormq.storage.journal import Journal
from mirrormq.storage.simulated_disk import SimulatedDisk
from mirrormq.wire.content import body_of, build_frames
from mirrormq.wire.fields import Table
from mirrormq.wire.methods import encode_basic_publish
from mirrormq.wire.properties import BasicProperties, encode_properties

TINY_LIMITS = {
    "HEAD_STORED_MESSAGES": 4,
    "HEAD_STORED_BYTES": 200,
    "HEAD_MESSAGES": 6,
    "HEAD_BYTES": 300,
    "LAZY_HEAD_MESSAGES": 2,
    "MIRROR_MEMORY_MESSAGES": 5,
    "PAGE_MESSAGES": 3,
    "PAGE_IN_BYTES": 60,
}


def tiny_limits(patch: pytest.MonkeyPatch) -> None:
    """Make every queue page after a handful of messages."""
    for name, value in TINY_LIMITS.items():
        patch.setattr(limits, name, value)


def make_message(
    body: bytes, *, persistent: bool = False, priority: int = 0, expires_at: int = NEVER,
    expiration: str | None = None, routing_key: str = "q", headers: Table | None = None,
) -> Message:  # fmt: skip
    """Return a message as a channel makes it."""
    properties = encode_properties(
        BasicProperties(
            headers=headers,
            delivery_mode=2 if persistent else 1,
            priority=priority,
            expiration=expiration,
        )
    )
    envelope = make_envelope(encode_basic_publish("", routing_key), properties)
    return Message(envelope, build_frames(1, properties, body, 0), expires_at)


def body(message: Message) -> bytes:
    """Return the body of a message."""
    return body_of(message.frames)


def make_disk(seed: int = 1) -> SimulatedDisk:
    """Return a disk in memory whose faults the seed determines."""
    return SimulatedDisk(random.Random(seed).randrange)


def open_journal(disk: SimulatedDisk, segment_bytes: int = 2048) -> Journal:
    """Return a journal with small segments."""
    journal = Journal(disk, "data/journal", make_envelope, segment_bytes=segment_bytes)
    journal.open()
    return journal
