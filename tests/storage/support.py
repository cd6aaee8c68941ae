"""Messages with recognisable bytes, and a journal on a simulated disk."""

from __future__ import annotations

import random

from mirrormq.queues.message import Envelope, Message
from mirrormq.storage.journal import Journal
from mirrormq.storage.journal_limits import DEFAULT_LIMITS, JournalLimits
from mirrormq.storage.simulated_disk import SimulatedDisk

DIRECTORY = "data/journal"
PROPERTIES = b"\x10\x00\x02"
"""Property flags with delivery mode only: persistent."""


def make_envelope(publish: bytes, properties: bytes) -> Envelope:
    """Return an envelope that keeps its bytes; storage reads nothing else of it."""
    return Envelope(publish, "", "", False, properties, True, 0, None, b"")


def content_frames(body: bytes, properties: bytes = PROPERTIES, frame_size: int = 4096) -> bytes:
    """Return a header frame and the body frames."""
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + properties
    frames = [b"\x02\x00\x01" + len(header).to_bytes(4, "big") + header + b"\xce"]
    for at in range(0, len(body), frame_size):
        part = body[at : at + frame_size]
        frames.append(b"\x03\x00\x01" + len(part).to_bytes(4, "big") + part + b"\xce")
    return b"".join(frames)


def message(sequence: int, text: str = "", *, publish: bytes = b"publish", expires_at: int = 0) -> Message:
    """Return a message whose body contains its sequence."""
    made = Message(
        make_envelope(publish, PROPERTIES), content_frames(f"{sequence}:{text}".encode()), expires_at
    )
    made.sequence = sequence
    return made


def messages(first: int, count: int, text: str = "") -> list[Message]:
    """Return consecutive messages."""
    return [message(sequence, text) for sequence in range(first, first + count)]


def disk(seed: int = 1) -> SimulatedDisk:
    """Return a disk whose faults the seed determines."""
    return SimulatedDisk(random.Random(seed).randrange)


def journal(on: SimulatedDisk, segment_bytes: int = 4096, limits: JournalLimits = DEFAULT_LIMITS) -> Journal:
    """Return a journal with small segments that is not open yet."""
    return Journal(on, DIRECTORY, make_envelope, segment_bytes=segment_bytes, limits=limits)


def opened(on: SimulatedDisk, segment_bytes: int = 4096, limits: JournalLimits = DEFAULT_LIMITS) -> Journal:
    """Return an open journal."""
    made = journal(on, segment_bytes, limits)
    made.open()
    return made


def state(of: Journal) -> dict[int, tuple[list[int], int, int, list[bytes]]]:
    """Return everything that recovery rebuilds: per queue the sequences, numbers and contents."""
    found = {}
    for queue_id, store in of.queues.items():
        sequences = list(store.recovered())
        frames = [loaded.frames for loaded in store.load(sequences)]
        if sequences or store.known:
            found[queue_id] = (sequences, store.next_sequence, store.delivered_up_to, frames)
    return found
