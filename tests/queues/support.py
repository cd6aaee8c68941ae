"""Messages made of real bytes, and limits so small that queues page all the time."""

from __future__ import annotations

import random

from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.message import NEVER, Message
from mirrormq.queues.queue_limits import QueueLimits
from mirrormq.storage.journal import Journal
from mirrormq.storage.simulated_disk import SimulatedDisk
from mirrormq.wire.content import body_of, build_frames
from mirrormq.wire.fields import Table
from mirrormq.wire.methods import encode_basic_publish
from mirrormq.wire.properties import BasicProperties, encode_properties

TINY_LIMITS = QueueLimits(
    head_stored_messages=4,
    head_stored_bytes=200,
    head_messages=6,
    head_bytes=300,
    lazy_head_messages=2,
    mirror_memory_messages=5,
    page_messages=3,
    page_in_bytes=60,
)
"""Limits with which every queue pages after a handful of messages."""


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
