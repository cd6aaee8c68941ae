"""Steps at HAProxy's admin socket that send a group of clients to one cluster. Pure.

A server in maintenance gets no new connection; its sessions are ended, so its clients connect again. While
all servers of a backend are in maintenance, HAProxy closes each connection at once, and the clients retry.
Pausing a frontend (`set maxconn frontend NAME 0`) is no alternative: HAProxy 2.6 aborts when it is resumed.
"""

from __future__ import annotations

import csv
import io
from typing import NamedTuple

from mirrormq.migration.migration_records import ProxyBackend
from mirrormq.migration.phases import Place

FORCED_MAINTENANCE = 0x01
"""Bit of srv_admin_state: the server is in maintenance by command or configuration."""


class ProxyServer(NamedTuple):
    """Server of a backend as HAProxy reports it."""

    backend: str
    name: str
    in_maintenance: bool
    sessions: int | None
    """None: the statistics lack this server."""


class ProxyReplyError(ValueError):
    """Reply of HAProxy that cannot be read; the text is for people."""


def read_servers(state: str, statistics: str) -> list[ProxyServer]:
    """Read the replies to `show servers state` and `show stat`."""
    lines = [line for line in state.splitlines() if line.strip()]
    if len(lines) < 2 or not lines[1].startswith("# "):
        raise ProxyReplyError("HAProxy did not reply to 'show servers state'; is the socket of level admin?")
    names = lines[1][2:].split()
    rows = [dict(zip(names, line.split(), strict=False)) for line in lines[2:]]
    counts = csv.DictReader(io.StringIO(statistics.removeprefix("# ").strip()))
    try:
        sessions = {(row["pxname"], row["svname"]): int(row["scur"] or 0) for row in counts}
        return [
            ProxyServer(
                row["be_name"],
                row["srv_name"],
                bool(int(row["srv_admin_state"]) & FORCED_MAINTENANCE),
                sessions.get((row["be_name"], row["srv_name"])),
            )
            for row in rows
        ]
    except (KeyError, TypeError, ValueError):
        raise ProxyReplyError("HAProxy's reply about its servers is incomplete") from None


def backend_of(servers: list[ProxyServer], name: str) -> ProxyBackend:
    """Return a backend: servers in maintenance are those of the new cluster."""
    own = [server for server in servers if server.backend == name]
    found = ProxyBackend(
        name,
        [server.name for server in own if not server.in_maintenance],
        [server.name for server in own if server.in_maintenance],
    )
    if not found.old or not found.new:
        raise ProxyReplyError(
            f"HAProxy's backend '{name}' must have servers of the old cluster, and servers of the new "
            f"cluster that are 'disabled': it has {len(found.old)} and {len(found.new)}"
        )
    return found


def steps(backend: ProxyBackend, place: Place, servers: list[ProxyServer]) -> list[str]:
    """Return the commands that let the clients of a backend reach one cluster only; none if it is so."""
    ready = {Place.OLD: backend.old, Place.NEW: backend.new, Place.NONE: []}[place]
    commands = []
    # Close first, then open: no client may reach both clusters in between.
    own = [server for server in servers if server.backend == backend.name]
    for server in own:
        if server.name not in ready and server.name in backend.old + backend.new:
            if not server.in_maintenance:
                commands.append(f"set server {backend.name}/{server.name} state maint")
            if server.sessions != 0 or not server.in_maintenance:
                commands.append(f"shutdown sessions server {backend.name}/{server.name}")
    commands += [
        f"set server {backend.name}/{server.name} state ready"
        for server in own
        if server.name in ready and server.in_maintenance
    ]
    return commands


def sessions_elsewhere(backend: ProxyBackend, place: Place, servers: list[ProxyServer]) -> int:
    """Return the number of sessions at servers that the clients must not reach."""
    ready = {Place.OLD: backend.old, Place.NEW: backend.new, Place.NONE: []}[place]
    listed = backend.old + backend.new
    total = 0
    for server in servers:
        if server.backend == backend.name and server.name in listed and server.name not in ready:
            if server.sessions is None:
                raise ProxyReplyError(f"HAProxy's statistics lack the server {backend.name}/{server.name}")
            total += server.sessions
    return total
