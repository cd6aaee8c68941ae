"""Text form of `mirrormqctl status`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mirrormq.cli.cluster_screen import ALARMS

GIGABYTE = 1_000_000_000


def _gigabytes(size: float) -> str:
    return f"{round(size / GIGABYTE, 4)} gb"


def status_screen(status: dict[str, Any]) -> Iterable[str]:
    """Yield the sections in RabbitMQ's order, with a MirrorMQ node's values."""
    yield from _section("Runtime")
    yield f"OS PID: {status['pid']}"
    yield f"OS: {status['os']}"
    yield f"Uptime (seconds): {status['uptime']}"
    yield f"RabbitMQ version: {status['rabbitmq_version']}"
    yield f"MirrorMQ version: {status['mirrormq_version']}"
    yield f"MirrorMQ message core: {status['mirrormq_core']}"
    yield f"Node name: {status['node']}"
    yield from _section("Data directory")
    yield f"Node data directory: {status['data_directory']}"
    yield from _section("Alarms")
    alarms = [f"{ALARMS.get(alarm, alarm)} alarm on node {status['node']}" for alarm in status["alarms"]]
    yield from alarms or ["(none)"]
    yield from _section("Memory")
    yield f"Total memory used: {_gigabytes(status['memory']['total'])}"
    yield "Calculation strategy: rss"
    yield f"Memory high watermark: {_gigabytes(status['vm_memory_limit'])}"
    yield from _section("Free Disk Space")
    yield f"Low free disk space watermark: {_gigabytes(status['disk_free_limit'])}"
    yield f"Free disk space: {_gigabytes(status['disk_free'])}"
    yield from _section("Totals")
    yield f"Connection count: {status['totals']['connection_count']}"
    yield f"Queue count: {status['totals']['queue_count']}"
    yield f"Virtual host count: {status['totals']['virtual_host_count']}"
    yield from _section("Listeners")
    for listener in status["listeners"]:
        where = f"Interface: {listener['interface']}, port: {listener['port']}"
        yield f"{where}, protocol: {listener['protocol']}, purpose: {listener['purpose']}"


def _section(title: str) -> Iterable[str]:
    return ([] if title == "Runtime" else [""]) + [title, ""]
