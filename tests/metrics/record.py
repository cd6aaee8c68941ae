"""Recorder of RabbitMQ's exporter: `python -m tests.metrics.record`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.brokers.ports import accepts, free_ports
from tests.brokers.rabbitmq import RabbitMQ
from tests.metrics.scene import scrape, worked
from tests.waiting import until

RECORDING = Path(__file__).with_name("recorded.json")
FAMILIES = (
    "connection_churn_metrics", "node_coarse_metrics", "node_metrics", "node_persister_metrics",
    "auth_attempt_metrics", "connection_coarse_metrics", "connection_metrics", "channel_metrics",
    "channel_exchange_metrics", "channel_queue_metrics", "channel_process_metrics",
    "channel_queue_exchange_metrics", "queue_coarse_metrics", "queue_metrics", "queue_consumer_count",
    "vhost_status", "exchange_names", "exchange_bindings",
)  # fmt: skip
DETAILED = "/metrics/detailed?" + "&".join(f"family={family}" for family in FAMILIES)
PATHS = ("/metrics", "/metrics/per-object", DETAILED)
SETTLE_S = 8.0
"""RabbitMQ collects statistics every second here, and its caches keep them for five."""


def observe() -> dict[str, Any]:
    """Return each family's type and labels by path, as a real RabbitMQ has them."""
    (port,) = free_ports(1)
    configuration = (
        f"prometheus.tcp.port = {port}\nprometheus.tcp.ip = 127.0.0.1\n"
        "management_agent.disable_metrics_collector = false\ncollect_statistics_interval = 1000\n"
    )
    with RabbitMQ(configuration=configuration, more_plugins=("rabbitmq_prometheus",)) as broker:
        connection = worked(broker.amqp_port)
        until(lambda: accepts(port))
        time.sleep(SETTLE_S)
        found = {path: scrape(port, path).shape() for path in PATHS}
        connection.close()
    return found


if __name__ == "__main__":
    RECORDING.write_text(json.dumps(observe(), indent=1) + "\n")
