"""Erlang terms of cluster status and listeners, as rabbitmqctl shows them: nodes by kind, listeners as
records, versions as maps."""

from __future__ import annotations

import ipaddress
from typing import Any

from mirrormq.cli.erlang_format import Atom, Chars

Row = dict[str, Any]
LOOPBACK = {"localhost": "127.0.0.1"}


def listeners(rows: list[Row]) -> list[Any]:
    """Return a list of pairs for each listener."""
    return [
        [
            (Atom("node"), Atom(row["node"])),
            (Atom("protocol"), Atom(row["protocol"])),
            (Atom("interface"), row["interface"]),
            (Atom("port"), row["port"]),
            (Atom("purpose"), row["purpose"]),
        ]
        for row in rows
    ]


def cluster_status(status: Row) -> list[Any]:
    """Return the sections in rabbitmqctl's order."""
    kinds = [("disc", status["disk_nodes"]), ("ram", status["ram_nodes"])]
    return [
        (Atom("nodes"), [(Atom(kind), _atoms(names)) for kind, names in kinds if names]),
        (Atom("running_nodes"), _atoms(status["running_nodes"])),
        (Atom("cluster_name"), status["cluster_name"]),
        (Atom("partitions"), [(Atom(name), _atoms(others)) for name, others in status["partitions"].items()]),
        (Atom("alarms"), [(Atom(name), _alarms(status["alarms"], name)) for name in status["running_nodes"]]),
        (
            Atom("listeners"),
            [(Atom(name), [_listener(row) for row in rows]) for name, rows in status["listeners"].items()],
        ),
        (
            Atom("versions"),
            [
                (Atom(name), {Atom(what): version for what, version in sorted(versions.items())})
                for name, versions in status["versions"].items()
            ],
        ),
        (
            Atom("maintenance_status"),
            [(Atom(name), state) for name, state in status["maintenance_status"].items()],
        ),
        (Atom("feature_flags"), [_flag(flag) for flag in status["feature_flags"]]),
        *_faults(status.get("journal_faults", [])),
    ]


def _faults(faults: list[Row]) -> list[Any]:
    """Return the journal faults, a section that RabbitMQ does not have; empty without faults."""
    if not faults:
        return []
    return [(Atom("journal_faults"), [(Atom(fault["node"]), Atom(fault["fault"])) for fault in faults])]


def _atoms(names: list[str]) -> list[Atom]:
    return [Atom(name) for name in names]


def _alarms(alarms: list[Row], node: str) -> list[Any]:
    return [
        (Atom("resource_limit"), Atom(alarm["resource"]), Atom(node))
        for alarm in alarms
        if alarm["node"] == node
    ]


def _listener(row: Row) -> tuple[Any, ...]:
    """Return a listener record: node, protocol, host name, address, port, socket options."""
    node, text = row["node"], LOOPBACK.get(row["interface"], row["interface"].strip("[]"))
    whose = (Atom("listener"), Atom(node), Atom(row["protocol"]))
    try:
        address = ipaddress.ip_address(text)
    except ValueError:  # A host name, not an address.
        return (*whose, Chars(text), Chars(text), row["port"], [])
    host = "localhost" if address.is_loopback else node.partition("@")[2]
    return (*whose, Chars(host), _numbers(address.packed, 2 if address.version == 6 else 1), row["port"], [])


def _numbers(packed: bytes, size: int) -> tuple[int, ...]:
    return tuple(int.from_bytes(packed[start : start + size], "big") for start in range(0, len(packed), size))


def _flag(flag: Row) -> list[Any]:
    return [
        (Atom("name"), Atom(flag["name"])),
        (Atom("desc"), flag["desc"]),
        (Atom("doc_url"), flag["doc_url"]),
        (Atom("state"), Atom(flag["state"])),
        (Atom("stability"), Atom(flag["stability"])),
        (Atom("provided_by"), Atom(flag["provided_by"])),
    ]
