"""Metadata repair: a node completes what its metadata lacks because an older node has made its snapshot, or
has written a record.

An older node drops the fields of later versions: versions and static shovels of nodes, and log indexes of
queues. The metadata of other nodes may be complete, so only the node itself can tell. A command that it
writes changes nothing on complete nodes, or it gives all nodes the same values (`BeginLogIndexes`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mirrormq.cluster.autoheal import Presence
from mirrormq.cluster.member import Member
from mirrormq.metadata import commands as c
from mirrormq.metadata.command_versions import knows_log_indexes

LOG_INDEXES = ""
"""Entry of `MetadataRepair._pending` beside the names of nodes."""


class MetadataRepair:
    """Metadata repair of one node while it serves."""

    def __init__(self, member: Member, presences: Mapping[str, Presence]) -> None:
        self._member = member
        self._presences = presences
        self._pending: set[str] = set()
        """Nodes whose record is written again, and not applied yet; `LOG_INDEXES` for log indexes."""

    def reset(self) -> None:
        """Forget pending writes at the start of an incarnation: the node may have discarded them with a
        fork."""
        self._pending.clear()

    def look(self, incarnation: int) -> None:
        """Compare the metadata with what this node and the serving nodes state, and write what it lacks."""
        member = self._member
        if member.leader is None:
            return  # the write would wait, and the record may change meanwhile
        self._look_at(member.name, incarnation, member.version, member.static_shovels)
        for found in self._presences.values():
            if found.serving and found.node in member.linked:
                self._look_at(found.node, found.incarnation, found.version, found.static_shovels)
        state = member.metadata.state
        if state.queues_without_indexes and knows_log_indexes(state):
            self._write(LOG_INDEXES, c.BeginLogIndexes())

    def _look_at(self, name: str, incarnation: int, version: int, static_shovels: tuple[str, ...]) -> None:
        record = self._member.metadata.state.nodes.get(name)
        if record is None or record.incarnation != incarnation:
            return
        if (record.version, record.static_shovels) != (version, static_shovels):
            complete = msgspec.structs.replace(record, version=version, static_shovels=static_shovels)
            self._write(name, c.PutNode(complete))

    def _write(self, what: str, command: c.Command) -> None:
        if what not in self._pending:
            self._pending.add(what)
            self._member.metadata.write(command, lambda: self._pending.discard(what))
