"""A publisher that numbers its messages and often begins again elsewhere, on brokers that have no luck.

It has one connection at a time. When that is gone, or something was refused, or it feels like it, it takes
another one, at any node, and publishes everything again that was not confirmed, and sometimes what was.
Everything is kept once.

STORMS=500 pytest tests/dedup/test_storms.py        for a longer look
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from mirrormq.queues.publish_ids import SeenPublishIds
from mirrormq.replication.mirror_copy import MirrorCopy
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.fields import table_of
from mirrormq.wire.properties import BasicProperties, encode_properties
from tests.leases.storm import LeaseStorm, Publisher

STORMS = int(os.environ.get("STORMS", "16"))
SEEDS_TO_FIND = 60
STEPS = 600


class DedupStorm(LeaseStorm):
    """The storm, with one publisher that moves about."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.last = 0
        self.safe: set[int] = set()
        self.publisher = self.load_clients[0]

    def publish(self) -> None:
        present = self.present()
        if not present:
            return
        if self.publisher not in present or self.publisher.refused or self.choice.random() < 0.1:
            self.publisher = self.fresh(self.choice.choice(present).node.name)
            first = next(number for number in range(1, self.last + 2) if number not in self.safe)
            if self.choice.random() < 0.3:
                first = self.choice.randint(1, first)
            self.send(range(first, self.last + 1))
        count = self.choice.randint(1, 3)
        self.send(range(self.last + 1, self.last + 1 + count))
        self.last += count

    def fresh(self, name: str) -> Publisher:
        """Another connection; the last one may be gone or not."""
        if self.publisher in self.publisher.node.clients and self.choice.random() < 0.5:
            self.publisher.lose()
        publisher = Publisher(self, name)
        self.load_clients.append(publisher)
        return publisher

    def send(self, numbers: range) -> None:
        load_client, frames = self.publisher, []
        method = method_frame(1, methods.encode_basic_publish("", "q"))
        for number in numbers:
            body = b"%d" % number
            self.persistent.add(body)
            load_client.bodies[len(load_client.bodies) + 1] = body
            headers = table_of({"x-producer": "one", "x-publish-id": number})
            header = encode_properties(BasicProperties(headers=headers, delivery_mode=2))
            frames.append(method + build_frames(1, header, body, 0))
        load_client.connection.receive(b"".join(frames))

    def read(self) -> None:
        super().read()
        self.safe = {int(body) for body in self.confirmed}

    def memory_was_lost(self) -> bool:
        """Disks remember, too."""
        return False


def run(seed: int) -> DedupStorm:
    """One history."""
    storm = DedupStorm(seed)
    for _ in range(STEPS):
        storm.step()
    storm.finish()
    return storm


@pytest.mark.parametrize("block", range(4))
def test_everything_is_kept_once(block: int) -> None:
    published = epochs = 0
    for seed in range(block * STORMS // 4, (block + 1) * STORMS // 4):
        try:
            storm = run(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        published += storm.last
        epochs += storm.cluster.record("q").ring.epoch
    assert published > STORMS
    assert epochs > STORMS // 4, "masters must have changed"


def forgets_publishers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue does not remember clients."""
    monkeypatch.setattr(SeenPublishIds, "record", lambda self, highest, now_ms: [])


def mirrors_do_not_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror takes the messages, and not who published them."""
    append = MirrorCopy._append

    def deaf(copy: MirrorCopy, operation: object) -> None:
        append(copy, operation)  # type: ignore[arg-type]
        for name in [name for name in copy.producers if name.startswith("x-producer:")]:
            del copy.producers[name]

    monkeypatch.setattr(MirrorCopy, "_append", deaf)


@pytest.mark.patches_core
@pytest.mark.parametrize("mutant", [forgets_publishers, mirrors_do_not_listen])
def test_a_broker_that_is_wrong_is_found_out(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(SEEDS_TO_FIND):
            run(seed)
