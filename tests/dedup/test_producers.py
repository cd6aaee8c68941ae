"""The table of producers is bounded, forgets whom it has not heard of, and keeps nodes and clients apart."""

from __future__ import annotations

import pytest

from mirrormq import limits
from mirrormq.errors import DamageError
from mirrormq.queues.publish_ids import PublishOrigin, SeenPublishIds, publish_id_of, publish_ids_in
from mirrormq.storage.journal import Journal
from mirrormq.storage.journal_limits import PRODUCERS_ID
from mirrormq.storage.producer_ids import EVERY_SEQUENCE
from mirrormq.wire.fields import Field, table_of
from mirrormq.wire.properties import BasicProperties, encode_properties
from tests.queues.support import make_disk, make_message, open_journal


def key(name: str) -> str:
    found = publish_id_of(table_of({"x-producer": name, "x-publish-id": 1}))
    assert found is not None
    return found[0]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-producer": "a"},
        {"x-publish-id": 1},
        {"x-producer": "a", "x-publish-id": "1"},
        {"x-producer": "a", "x-publish-id": -1},
        {"x-producer": "a", "x-publish-id": True},
        {"x-producer": 7, "x-publish-id": 1},
        {"x-producer": "a" * 256, "x-publish-id": 1},
        {"x-producer": "a", "x-publish-id": Field("T", 5)},
    ],
)
def test_malformed_publish_ids_are_ignored(headers: dict[str, object]) -> None:
    assert publish_id_of(table_of(headers)) is None


def test_publish_ids_are_read_from_properties() -> None:
    headers = table_of({"x-producer": "job", "x-publish-id": 1 << 40})
    properties = encode_properties(BasicProperties(headers=headers, message_id="x"))
    assert publish_ids_in(properties) == (key("job"), 1 << 40)
    assert publish_ids_in(encode_properties(BasicProperties(message_id="x"))) is None


def test_the_producer_that_is_idle_for_longest_is_forgotten_first() -> None:
    producers = SeenPublishIds({key("known"): 5, "node#1": 9})
    others = {key(f"other {number}"): 1 for number in range(limits.PRODUCERS_REMEMBERED_MAX - 3)}
    for number, name in enumerate(("a", "b", "a")):
        assert producers.record({key(name): number}, number) == []
    assert producers.record(others, 2) == []
    assert producers.record({key("c"): 3}, 3) == [key("known")]
    assert producers.record({key("d"): 1}, 9) == [key("b")]
    assert set(producers) == {"node#1", key("a"), key("c"), key("d"), *others}
    assert producers[key("a")] == 2


def test_a_producer_that_is_silent_for_too_long_is_forgotten() -> None:
    producers = SeenPublishIds()
    producers.record({key("a"): 1}, 1_000)
    later = 1_000 + limits.PRODUCER_IDLE_MS
    assert producers.record({key("b"): 1}, later - 1) == []
    assert producers.record({key("b"): 2}, later) == [key("a")]


def test_clients_do_not_push_nodes_out() -> None:
    producers = SeenPublishIds()
    count = limits.PRODUCERS_MAX + 2
    for number in range(count):
        producers.record({key(f"{number}#1"): number}, number)
        producers.seen(PublishOrigin(f"node#{number}", 1), 1)
    nodes = [f"node#{number}" for number in range(2, count)]
    assert [name for name in producers if name.startswith("node")] == nodes
    assert len(producers) == count + limits.PRODUCERS_MAX
    assert producers.forget(lambda name: name == "node#3") == ["node#3"]


# -- on disk ----------------------------------------------------------------------------------------


def stored(journal: Journal, first: int, last: int, *, noted: bool = True) -> None:
    """Messages `first` to `last` of queue 1, presented under their sequences."""
    store = journal.queue(1)
    messages = []
    for number in range(first, last + 1):
        headers = table_of({"x-producer": "job", "x-publish-id": number})
        message = make_message(b"x", persistent=True, headers=headers)
        message.sequence = number
        messages.append(message)
    if noted:
        store.record_producer_id({key("job"): last}, last + 1)
    store.append(messages, durable=True)


@pytest.mark.parametrize("way", ["kill", "power", "close"])
def test_flushed_publish_ids_are_known_after_a_restart(way: str) -> None:
    disk = make_disk()
    journal = open_journal(disk)
    for first in range(1, 200, 10):
        stored(journal, first, first + 9)
        journal.flush(sync=True)
        journal.queue(1).forget(range(first, first + 9))
        journal.housekeeping(1 << 20)
    if way == "close":
        journal.close()
    elif way == "kill":
        disk.kill()
    else:
        disk.crash()
    journal = open_journal(disk)
    assert journal.queue(1).producer_ids() == {key("job"): 200}
    journal.queue(1).erase()
    journal.flush(sync=True)
    journal.close()
    assert open_journal(disk).queue(1).producer_ids() == {}


@pytest.mark.parametrize("before", [0, 1])
def test_messages_of_a_torn_flush_speak_for_themselves(before: int) -> None:
    """The messages reached the disk, and what was to be written behind them did not."""
    disk = make_disk()
    journal = open_journal(disk)
    for flushed in range(before):
        stored(journal, 10 * flushed + 1, 10 * flushed + 10)
        journal.flush(sync=True)
    stored(journal, 10 * before + 1, 10 * before + 5)
    journal.writer.sync()
    disk.crash()
    journal = open_journal(disk)
    assert journal.queue(1).producer_ids() == {key("job"): 10 * before + 5}


def test_queues_that_are_gone_are_forgotten() -> None:
    disk = make_disk()
    journal = open_journal(disk)
    stored(journal, 1, 3)
    journal.close()
    journal = open_journal(disk)
    journal.forget_unknown({2})
    journal.close()
    assert open_journal(disk).queue(1).producer_ids() == {}


@pytest.mark.parametrize(("while_stopped", "known"), [(False, {key("job"): 30}), (True, {})])
def test_damaged_records_are_written_again_or_removed(while_stopped: bool, known: dict[str, int]) -> None:
    disk = make_disk()
    journal = open_journal(disk)
    for first in (1, 11, 21):
        stored(journal, first, first + 9)
        journal.flush(sync=True)
    journal.flush(sync=True)  # writes the last entry, which `close` would replace otherwise
    store = journal.queue(PRODUCERS_ID)
    numbers = store.between(0, EVERY_SEQUENCE, 10)
    positions = [found.position for found in store.load(numbers)]
    if while_stopped:
        journal.close()
    for position in positions:
        disk.flip(journal.segments.path(position >> 32), (position & 0xFFFFFFFF) + 30, 2)
    if while_stopped:
        journal = open_journal(disk)
    else:
        with pytest.raises(DamageError):
            store.load(numbers)
    assert journal.damage.pending() == {PRODUCERS_ID: list(numbers)}
    journal.producer_ids.rewrite_damaged(numbers)
    for _ in range(2):
        journal.flush(sync=True)
    assert not journal.damage.pending()
    disk.crash()
    assert open_journal(disk).queue(1).producer_ids() == known
