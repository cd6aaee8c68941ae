"""Values of `mirrormqctl status`."""

from __future__ import annotations

import os
import platform
import time
from typing import TYPE_CHECKING, Any

from mirrormq import __version__, builds
from mirrormq.config.settings import Settings
from mirrormq.runtime.resource_watch import free_disk_bytes, resident_bytes

if TYPE_CHECKING:
    from mirrormq.runtime.application import Application


def listeners(settings: Settings) -> list[dict[str, Any]]:
    """Return the node's listeners with protocol and purpose, in RabbitMQ's words."""
    opened = [("http", settings.management_listener, "HTTP API")]
    opened.append(("https", settings.management_tls_listener, "HTTP API over TLS (HTTPS)"))
    opened.append(("http/prometheus", settings.metrics_listener, "Prometheus exporter API over HTTP"))
    opened.append(("clustering", settings.cluster_listener, "inter-node and CLI tool communication"))
    opened += [("amqp/ssl", address, "AMQP 0-9-1 over TLS") for address in settings.tls_listeners]
    opened += [("amqp", address, "AMQP 0-9-1") for address in settings.amqp_listeners]
    return [
        {
            "node": settings.name,
            "protocol": protocol,
            "interface": address.host or "[::]",
            "port": address.port,
            "purpose": purpose,
        }
        for protocol, address, purpose in opened
        if address is not None
    ]


def status(node: Application) -> dict[str, Any]:
    """Return the status of a node, under RabbitMQ's names where RabbitMQ has the value."""
    settings = node.settings
    return {
        "node": settings.name,
        "pid": os.getpid(),
        "os": platform.platform(),
        "product_name": settings.product,
        "product_version": settings.product_version,
        "rabbitmq_version": settings.product_version,
        "mirrormq_version": __version__,
        "mirrormq_core": builds.choice.description,
        "uptime": int(time.time() - node.started_at_s),
        "data_directory": str(settings.data_directory),
        "vm_memory_limit": node.resources.memory_limit_bytes,
        "memory": {"total": resident_bytes()},
        "disk_free": free_disk_bytes(settings.data_directory),
        "disk_free_limit": node.resources.disk_limit_bytes,
        "alarms": sorted(node.broker.alarms.raised),
        "listeners": listeners(settings),
        "totals": {
            "connection_count": len(node.broker.connections),
            "queue_count": len(node.metadata.state.queues),
            "virtual_host_count": len(node.metadata.state.vhosts),
        },
    }
