"""Keeps a node's failover timeline: lets it follow what happens, writes it down, and tells the others.

The file has one event a line. It is added to once a second when there is something new, and not synced: what
the last second before a crash brought, the other nodes have. An event that became better known later stands
there twice; reading puts the two together. When the file has twice as many lines as are kept, it is written
anew.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mirrormq.broker.ring_status import delivered_before
from mirrormq.management.failover_timeline import FRESH_MAX, Event, FailoverTimeline
from mirrormq.management.peer_client import ROWS_PER_QUESTION, PeerClient

if TYPE_CHECKING:
    from mirrormq.config.settings import Settings
    from mirrormq.runtime.application import Application

NAME = "timeline"
INTERVAL_S = 1.0
LINES_MAX = 2 * FRESH_MAX
REQUIRED = {"at_ms": int, "kind": str, "node": str}


def read_events(content: bytes) -> list[Event]:
    """Whatever of a file can be read: the last line may be cut."""
    found: list[Event] = []
    for line in content.splitlines():
        try:
            event: Any = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if isinstance(event, dict) and all(isinstance(event.get(n), kind) for n, kind in REQUIRED.items()):
            found.append(event)
    return found


def remembered(settings: Settings) -> FailoverTimeline:
    """The story as it is on disk."""
    timeline = FailoverTimeline(settings.name)
    try:
        timeline.hear(read_events((settings.data_directory / NAME).read_bytes()))
    except OSError:
        return timeline
    timeline.take_fresh()
    return timeline


class TimelineFile:
    """Where it is written."""

    def __init__(self, path: Path, timeline: FailoverTimeline) -> None:
        self._path = path
        self._timeline = timeline
        self._lines = LINES_MAX
        """In the file; at first nobody knows, so that it is written anew."""

    def write(self, fresh: list[Event]) -> None:
        """Raises OSError."""
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
    """For one life of the application."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._timeline = timeline = application.node.timeline
        settings = application.settings
        self._me = settings.name
        self._file = TimelineFile(settings.data_directory / NAME, timeline)
        self._elsewhere = PeerClient(application.node.cluster, settings.name)
        self._failed = False
        timeline.redelivers = lambda record: delivered_before(application.broker, record)
        application.metadata.listeners.append(timeline.follow)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            self._timeline.partitions(self._application.node.cluster.partitions.get(self._me, []))
            own = [event for event in self._write() if event.get("redelivered") is not None]
            for start in range(0, len(own), ROWS_PER_QUESTION):
                await self._elsewhere.ask_all("heard", events=own[start : start + ROWS_PER_QUESTION])

    def close(self) -> None:
        """Nothing more will be seen by this life."""
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
                self._application.warn(f"the failover timeline cannot be written: {error}")
            self._failed = True
        return [event for event in fresh if event["node"] == self._me]
