"""Broker at work, and its metrics meanwhile."""

from __future__ import annotations

import re
import time
import urllib.request
from typing import NamedTuple

import pika

TYPE = re.compile(r"^# TYPE (\S+) (\S+)$")
SERIES = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
PARTS = ("_bucket", "_count", "_sum")
SEEN_DEADLINE_S = 60.0


class Sample(NamedTuple):
    """Line with one sample."""

    name: str
    labels: dict[str, str]
    value: float


class Exposition(NamedTuple):
    """Result of one scrape."""

    types: dict[str, str]
    samples: list[Sample]

    def family(self, name: str) -> str:
        """Return the name under which a sample's type was announced."""
        for part in PARTS:
            if name not in self.types and self.types.get(name.removesuffix(part)) in ("histogram", "summary"):
                return name.removesuffix(part)
        return name

    def shape(self) -> dict[str, list[list[str]]]:
        """Return each family's type and the label names of its samples, each combination once."""
        found: dict[str, set[tuple[str, ...]]] = {name: set() for name in self.types}
        for sample in self.samples:
            found[self.family(sample.name)].add(tuple(sorted(sample.labels)))
        return {name: [[self.types[name]], *map(list, sorted(found[name]))] for name in sorted(found)}

    def values(self, name: str, **labels: str) -> list[float]:
        """Return the values of the samples with these labels."""
        return [s.value for s in self.samples if s.name == name and labels.items() <= s.labels.items()]


def parse(text: str) -> Exposition:
    """Parse the text; raise AssertionError if Prometheus could not read it."""
    types: dict[str, str] = {}
    samples: list[Sample] = []
    for line in text.splitlines():
        if found := TYPE.match(line):
            assert found[1] not in types, f"{found[1]} is announced twice"
            types[found[1]] = found[2]
        elif line and not line.startswith("#"):
            sample = SERIES.match(line)
            assert sample is not None, line
            labels = dict(LABEL.findall(sample["labels"] or ""))
            samples.append(Sample(sample["name"], labels, float(sample["value"])))
    return Exposition(types, samples)


def scrape(port: int, path: str = "/metrics") -> Exposition:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return parse(answer.read().decode())


def worked(amqp_port: int) -> pika.BlockingConnection:
    """Do some of everything that is counted; the state stays while the connection is open."""
    connection = pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", amqp_port, heartbeat=600, blocked_connection_timeout=60)
    )
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("work", durable=True)
    channel.exchange_declare("in", "direct")
    channel.queue_bind("work", "in", "k")
    lasting = pika.BasicProperties(delivery_mode=2)
    for body in (b"one", b"two", b"three"):
        channel.basic_publish("in", "k", body, lasting)
    channel.basic_publish("in", "nowhere", b"dropped")
    try:
        channel.basic_publish("in", "nowhere", b"returned", mandatory=True)
    except pika.exceptions.UnroutableError:
        pass
    method = channel.basic_get("work")[0]
    channel.basic_ack(method.delivery_tag)
    method = channel.basic_get("work")[0]
    channel.basic_nack(method.delivery_tag, requeue=True)
    channel.basic_get("work", auto_ack=True)
    channel.queue_declare("nothing")
    channel.basic_get("nothing")
    taken: list[int] = []
    channel.basic_qos(prefetch_count=5)
    channel.basic_consume("work", lambda _, method, *__: taken.append(method.delivery_tag))
    other = connection.channel()
    other.basic_consume("nothing", lambda *_: None, auto_ack=True)
    deadline = time.monotonic() + SEEN_DEADLINE_S
    while not taken:
        assert time.monotonic() < deadline
        connection.process_data_events(0.1)
    return connection
