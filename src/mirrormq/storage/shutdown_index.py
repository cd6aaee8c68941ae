"""Index of a clean shutdown: spares the next start reading every segment.

    magic, checksum of all that follows, length of the description u32
    description (JSON): byte order; each segment's number, length, salt, counters; each queue's sequences
    per queue and chunk, as described: positions, then sizes, as they are in memory

The index is used only if it is complete and names the journal's identity. It must describe exactly the
segments that the manifest lists and the directory has, with the same lengths and salts. Otherwise it is
discarded and the segments are read. An index of format 1 is never used: the upgrade reads every record once.
"""

from __future__ import annotations

import json
import sys
import zlib
from array import array
from typing import TYPE_CHECKING, Any

from mirrormq.sequences.spans import Interval
from mirrormq.storage import journal_records
from mirrormq.storage.disk import Disk
from mirrormq.storage.position_table import CHUNK
from mirrormq.storage.segment_header import DATA_AT, FORMAT, read_segment_header
from mirrormq.storage.segments import Segment

if TYPE_CHECKING:
    from mirrormq.storage.inventory import SegmentInventory
    from mirrormq.storage.journal import Journal

NAME = "clean-shutdown.index"
MAGIC = b"MMQINDX2"
CHUNK_BYTES = CHUNK * 12


def exists(disk: Disk, directory: str) -> bool:
    """Return whether an index exists."""
    return NAME in disk.list(directory)


def remove(disk: Disk, directory: str) -> None:
    """Remove the index durably."""
    disk.remove(f"{directory}/{NAME}")
    disk.sync_directory(directory)


def save(disk: Disk, directory: str, journal: Journal) -> None:
    """Write the index atomically."""
    queues = [store for store in journal.queues.values() if store.known]
    description = {
        "byte_order": sys.byteorder,
        "chunk": CHUNK,
        "identity": journal.identity,
        "segments": [describe(segment) for segment in journal.segments.by_number.values()],
        "queues": [
            {
                "id": store.queue_id,
                "next": [store.next_sequence, store.next_segment],
                "delivered": [store.delivered_up_to, store.delivered_segment],
                "chunks": sorted(store.table.chunks),
            }
            for store in queues
        ],
    }
    text = json.dumps(description, separators=(",", ":")).encode()
    pieces = [len(text).to_bytes(4, "little"), text]
    for store in queues:
        for number in sorted(store.table.chunks):
            pieces += (store.table.chunks[number].tobytes(), store.table.sizes[number].tobytes())
    content = b"".join(pieces)
    temporary = f"{directory}/{NAME}.new"
    if f"{NAME}.new" in disk.list(directory):
        disk.remove(temporary)
    file = disk.create(temporary)
    file.write(MAGIC + zlib.crc32(content).to_bytes(4, "little") + content, 0)
    file.sync()
    file.close()
    disk.rename(temporary, f"{directory}/{NAME}")
    disk.sync_directory(directory)


def describe(segment: Segment) -> dict[str, Any]:
    """Return the facts about a segment that the next start requires."""
    return {
        "number": segment.number,
        "length": segment.used_bytes,
        "salt": segment.salt,
        "format": segment.format,
        "checksum": segment.checksum_name,
        "total": segment.total,
        "damaged": segment.damaged,
        "stored": [[queue_id, *interval] for queue_id, interval in segment.stored.items()],
        "acknowledged": [[queue_id, *interval] for queue_id, interval in segment.acknowledged.items()],
    }


def load(disk: Disk, directory: str, journal: Journal, inventory: SegmentInventory) -> str | None:
    """Fill the journal from the index. On a mismatch leave the journal empty and return the reason."""
    file = disk.open(f"{directory}/{NAME}")
    data = file.read(file.size(), 0)
    file.close()
    content = data[len(MAGIC) + 4 :]
    if data[: len(MAGIC)] != MAGIC:
        return "it is not of format 2"
    if data[: len(MAGIC) + 4] != MAGIC + zlib.crc32(content).to_bytes(4, "little"):
        return "its checksum does not match"
    length = int.from_bytes(content[:4], "little")
    description = json.loads(content[4 : 4 + length])
    if description["byte_order"] != sys.byteorder or description["chunk"] != CHUNK:
        return "it was written by another kind of machine or version"
    if not inventory.whole or description["identity"] != inventory.identity.hex():
        return "it is not of the journal that the manifest names"
    segments = [restored(item) for item in description["segments"]]
    listed = [(item.number, item.salt, item.length) for item in inventory.listed]
    if [(item.number, item.salt, item.used_bytes) for item in segments] != listed:
        return "the manifest lists other segments"
    if [segment.number for segment in segments] != journal.segments.found():
        return "the segment files are not those it describes"
    for segment in segments:
        reason = mismatch(disk, journal.segments.path(segment.number), segment, inventory.identity)
        if reason is not None:
            return reason
    # Adopt after all checks: on a mismatch the caller replays the segments into this journal.
    for segment in segments:
        journal.segments.adopt(segment)
    fill_queues(journal, description["queues"], content, 4 + length)
    return None


def restored(item: dict[str, Any]) -> Segment:
    """Return a segment from its description."""
    checksum = journal_records.checksum_named(item["checksum"])
    segment = Segment(
        item["number"],
        item["checksum"],
        checksum or journal_records.no_checksum,
        item["salt"],
        item["format"],
    )
    segment.used_bytes, segment.total, segment.damaged = item["length"], item["total"], item["damaged"]
    segment.stored, segment.acknowledged = intervals(item["stored"]), intervals(item["acknowledged"])
    return segment


def intervals(rows: list[list[int]]) -> dict[int, Interval]:
    """Return intervals from their JSON form."""
    return {queue_id: Interval(low, high) for queue_id, low, high in rows}


def mismatch(disk: Disk, path: str, segment: Segment, identity: bytes) -> str | None:
    """Return why a file is not the described segment; None if it is."""
    file = disk.open(path)
    size, header = file.size(), read_segment_header(file.read(DATA_AT, 0))
    file.close()
    if size != segment.used_bytes:
        return f"{path} has {size} bytes, not {segment.used_bytes}"
    expected = (segment.number, segment.checksum_name, segment.salt, segment.format)
    if header is None or header[:4] != expected or (header.format == FORMAT and header.identity != identity):
        return f"the header of {path} is another one"
    if journal_records.checksum_named(segment.checksum_name) is None:
        return f"the checksum of {path} is not available here"
    return None


def fill_queues(journal: Journal, rows: list[dict[str, Any]], content: bytes, offset: int) -> None:
    """Rebuild the queues' tables from the arrays."""
    for row in rows:
        store = journal.queue(row["id"])
        store.known = True
        store.next_sequence, store.next_segment = row["next"]
        store.delivered_up_to, store.delivered_segment = row["delivered"]
        for number in row["chunks"]:
            positions = array("Q", content[offset : offset + 8 * CHUNK])
            store.table.chunks[number] = positions
            store.table.sizes[number] = array("I", content[offset + 8 * CHUNK : offset + CHUNK_BYTES])
            journal.segments.claim(positions)
            offset += CHUNK_BYTES
        store.table.recount()
