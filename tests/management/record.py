"""Writes down what a real RabbitMQ shows: `python -m tests.management.record`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.brokers.rabbitmq import RabbitMQ
from tests.management.observing import observe

RECORDING = Path(__file__).with_name("recorded.json")
WITH_STATISTICS = "management_agent.disable_metrics_collector = false"


def main() -> None:
    with RabbitMQ(configuration=WITH_STATISTICS) as broker:
        seen = observe(broker.amqp_port, broker.management_port)
    RECORDING.write_text(json.dumps(seen, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
