"""Text form of `mirrormqctl status`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mirrormq.cli.cluster_screen import ALARMS

GIGABYTE = 1_000_000_000


def _gigabytes(size: float) -> str:
    return f"{round(size / GIGABYTE, 4)} gb"


def status_screen(found: dict[str, Any]) -> Iterable[str]:
    """Yield the sections in RabbitMQ's order, with a MirrorMQ node's values."""
    yield from _section("Runtime")
    yield f"OS PID: {found['pid']}"
    yield f"OS: {found['os']}"
    yield f"Uptime (seconds): {found['uptime']}"
    yield f"RabbitMQ version: {found['rabbitmq_version']}"
    yield f"MirrorMQ version: {found['mirrormq_version']}"
    yield f"Node name: {found['node']}"
    yield from _section("Data directory")
    yield f"Node data directory: {found['data_directory']}"
    yield from _section("Alarms")
    alarms = [f"{ALARMS.get(alarm, alarm)} alarm on node {found['node']}" for alarm in found["alarms"]]
    yield from alarms or ["(none)"]
    yield from _section("Memory")
    yield f"Total memory used: {_gigabytes(found['memory']['total'])}"
    yield "Calculation strategy: rss"
    yield f"Memory high watermark: {_gigabytes(found['vm_memory_limit'])}"
    yield from _section("Free Disk Space")
    yield f"Low free disk space watermark: {_gigabytes(found['disk_free_limit'])}"
    yield f"Free disk space: {_gigabytes(found['disk_free'])}"
    yield from _section("Totals")
    yield f"Connection count: {found['totals']['connection_count']}"
    yield f"Queue count: {found['totals']['queue_count']}"
    yield f"Virtual host count: {found['totals']['virtual_host_count']}"
    yield from _section("Listeners")
    for listener in found["listeners"]:
        where = f"Interface: {listener['interface']}, port: {listener['port']}"
        yield f"{where}, protocol: {listener['protocol']}, purpose: {listener['purpose']}"


def _section(title: str) -> Iterable[str]:
    return ([] if title == "Runtime" else [""]) + [title, ""]
