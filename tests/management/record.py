"""Recorder of a real RabbitMQ's replies and counters: `python -m tests.management.record`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.brokers.rabbitmq import RabbitMQ
from tests.management import edges, object_statistics, work
from tests.management.observing import observe

RECORDING = Path(__file__).with_name("recorded.json")
COUNTED = Path(__file__).with_name("recorded_work.json")
PLACED = Path(__file__).with_name("recorded_places.json")
EDGES = Path(__file__).with_name("recorded_edges.json")
WITH_STATISTICS = "management_agent.disable_metrics_collector = false"


def main() -> None:
    with RabbitMQ(configuration=WITH_STATISTICS) as broker:
        seen = observe(broker.amqp_port, broker.management_port)
    RECORDING.write_text(json.dumps(seen, indent=1, sort_keys=True) + "\n")
    COUNTED.write_text(json.dumps(count(), indent=1, sort_keys=True) + "\n")
    PLACED.write_text(json.dumps(place(), indent=1, sort_keys=True) + "\n")
    EDGES.write_text(json.dumps(at_the_edges(), indent=1, sort_keys=True) + "\n")


def at_the_edges() -> list[dict[str, Any]]:
    """Record RabbitMQ's replies to edge cases."""
    with RabbitMQ(configuration=WITH_STATISTICS) as broker:
        return edges.observe(broker.management_port)


def place() -> dict[str, Any]:
    """Record RabbitMQ's statistics of each channel at each exchange and queue."""
    settings = f"{WITH_STATISTICS}\n{object_statistics.DETAILED}\n{work.OFTEN}"
    with RabbitMQ(configuration=settings) as broker:
        return object_statistics.observe(broker.amqp_port, broker.management_port)


def count() -> dict[str, Any]:
    """Record RabbitMQ's counters of the work."""
    with RabbitMQ(configuration=f"{WITH_STATISTICS}\n{work.OFTEN}") as broker:
        return work.observe(broker.amqp_port, broker.management_port)


if __name__ == "__main__":
    main()
