"""Server properties in connection.start."""

from __future__ import annotations

from mirrormq import __version__
from mirrormq.config.settings import Settings
from mirrormq.wire.fields import Table, table_of

CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)
"""Capabilities of RabbitMQ 3.10, in its order."""


def server_properties(settings: Settings, cluster_name: str) -> Table:
    """Return the server properties. Clients evaluate product and version, so these are RabbitMQ's; our
    name is extra."""
    return table_of(
        {
            "capabilities": dict.fromkeys(CAPABILITIES, True),
            "cluster_name": cluster_name,
            "copyright": "Copyright (c) the MirrorMQ authors.",
            "information": "Licensed under the Apache License 2.0.",
            "platform": "Python",
            "product": settings.product,
            "version": settings.product_version,
            "broker": "MirrorMQ",
            "broker_version": __version__,
        }
    )
