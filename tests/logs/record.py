"""Writes down what RabbitMQ logs of the scene: `python -m tests.logs.record`."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

from tests.brokers.rabbitmq import RabbitMQ
from tests.logs.scene import Line, act, lines_of, shown

RECORDING = Path(__file__).with_name("recorded.json")
SETTLE_S = 2.0
"""RabbitMQ writes some of its lines later, in no order that one could wait for."""
OF_ITS_OWN = re.compile("[Mm]essage store|supervisor|segment_entry|Recovering|data directory|is stopping")


def observe() -> list[Line]:
    """Its lines, in order, without what only a programmer reads and what its stores say of themselves."""
    with RabbitMQ(configuration="log.file.level = debug\nlog.file.formatter = json\n") as broker:
        log = broker.directory / "log" / f"{broker.node_name}.log"
        time.sleep(SETTLE_S)
        before = len(log.read_text())
        act(broker.amqp_port, broker.management_port)
        time.sleep(SETTLE_S)
        seen = [shown(line) for line in lines_of(log.read_text()[before:])]
    return [line for line in seen if line[0] != "debug" and not OF_ITS_OWN.search(line[2])]


if __name__ == "__main__":
    RECORDING.write_text(json.dumps(observe(), indent=1) + "\n")
