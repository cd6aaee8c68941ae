"""Failover timeline on disk: records events, writes them to a file, and sends them to the other nodes.

The file has one event per line. New events are appended once a second and not synced: the other nodes have
the events of the last second before a crash. An event that was completed later is in the file twice;
reading merges the two. When the file has twice as many lines as are kept, it is rewritten.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mirrormq.management.failover_timeline import FRESH_MAX, Event, FailoverTimeline
from mirrormq.management.peer_client import ROWS_PER_REQUEST, PeerClient
from mirrormq.replication.ring_status import delivered_before

if TYPE_CHECKING:
    from mirrormq.config.settings import Settings
    from mirrormq.runtime.application import Application

NAME = "timeline"
INTERVAL_S = 1.0
LINES_MAX = 2 * FRESH_MAX
REQUIRED = {"at_ms": int, "kind": str, "node": str}


def read_events(content: bytes) -> list[Event]:
    """Return the readable events of a file. The last line may be truncated."""
    events: list[Event] = []
    for line in content.splitlines():
        try:
            event: Any = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if isinstance(event, dict) and all(isinstance(event.get(n), kind) for n, kind in REQUIRED.items()):
            events.append(event)
    return events


def remembered(settings: Settings) -> FailoverTimeline:
    """Return the timeline as stored on disk."""
    timeline = FailoverTimeline(settings.name)
    try:
        timeline.merge(read_events((settings.data_directory / NAME).read_bytes()))
    except OSError:
        return timeline
    timeline.take_fresh()
    return timeline


class TimelineFile:
    """File of the timeline."""

    def __init__(self, path: Path, timeline: FailoverTimeline) -> None:
        self._path = path
        self._timeline = timeline
        self._lines = LINES_MAX
        """Lines in the file. Unknown at first, so that the first write rewrites the file."""

    def write(self, fresh: list[Event]) -> None:
        """Append fresh events, or rewrite the file if it has grown too long. Raise OSError."""
        if self._lines + len(fresh) > LINES_MAX:
            events = self._timeline.events
            other = self._path.with_suffix(".new")
            other.write_bytes(_lines(events))
            other.replace(self._path)
            self._lines = len(events)
        else:
            with self._path.open("ab") as file:
                file.write(_lines(fresh))
            self._lines += len(fresh)


def _lines(events: list[Event]) -> bytes:
    return b"".join([msgspec.json.encode(event) + b"\n" for event in events])


class TimelineKeeper:
    """Timeline recorder of one application incarnation."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._timeline = timeline = application.node.timeline
        settings = application.settings
        self._me = settings.name
        self._file = TimelineFile(settings.data_directory / NAME, timeline)
        self._peers = PeerClient(application.node.cluster, settings.name)
        self._failed = False
        timeline.redelivers = lambda record: delivered_before(application.broker, record)
        application.metadata.listeners.append(timeline.follow)
        for record in application.metadata.state.nodes.values():
            timeline.note_running(record)

    async def run(self) -> None:
        """Record partitions and send own events to the other nodes, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            self._timeline.partitions(self._application.node.cluster.partitions.get(self._me, []))
            own = [event for event in self._write() if event.get("redelivered") is not None]
            for start in range(0, len(own), ROWS_PER_REQUEST):
                await self._peers.ask_all("heard", events=own[start : start + ROWS_PER_REQUEST])

    def close(self) -> None:
        """Stop recording, and write the last events."""
        self._application.metadata.listeners.remove(self._timeline.follow)
        self._write()

    def _write(self) -> list[Event]:
        fresh = self._timeline.take_fresh()
        if not fresh:
            return []
        for event in fresh:
            if event["kind"] in ("partition", "healed") and event["node"] == self._me:
                self._application.warn(f"network partition: {self._me} is {event['text']}")
        try:
            self._file.write(fresh)
            self._failed = False
        except OSError as error:
            if not self._failed:
                self._application.warn(f"writing the failover timeline failed: {error}")
            self._failed = True
        return [event for event in fresh if event["node"] == self._me]
