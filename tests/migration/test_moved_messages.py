"""Messages of a migration: headers, numbers, and a hash that is equal on both clusters."""

from __future__ import annotations

import tracemalloc
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from mirrormq.client.client_connection import ClientConnection
from mirrormq.client.client_events import Delivery
from mirrormq.migration.move_ledger import Moved, MoveLedger
from mirrormq.migration.moved_messages import MovingTransform, plain, plain_hash
from mirrormq.wire.fields import Field, table_of
from mirrormq.wire.properties import BasicProperties, decode_properties, encode_properties

NO_CONNECTION = cast(ClientConnection, None)

TEXT = st.text(max_size=20)
HEADERS = st.none() | st.dictionaries(TEXT, st.text() | st.integers(-5, 5) | st.booleans(), max_size=4).map(
    table_of
)
PROPERTIES = st.builds(
    BasicProperties,
    headers=HEADERS,
    delivery_mode=st.sampled_from((None, 1, 2)),
    priority=st.none() | st.integers(0, 9),
    user_id=st.none() | TEXT,
    message_id=st.none() | TEXT,
    timestamp=st.none() | st.integers(0, 2**40),
    **dict.fromkeys(
        (
            "content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "type_", "app_id",
            "cluster_id",
        ),
        st.none() | TEXT,
    ),
)  # fmt: skip


def delivery(
    properties: BasicProperties, exchange: str = "orders", key: str = "eu.1", *, redelivered: bool = False
) -> Delivery:
    return Delivery(1, "tag", 1, redelivered, exchange, key, encode_properties(properties), b"body")


def transform(entered: list[tuple[int, bool]], *, forward: bool = True) -> MovingTransform:
    made = MovingTransform("work", forward=forward, enter=lambda value, again: entered.append((value, again)))
    made.restart("m1-1")
    return made


@given(PROPERTIES, TEXT, TEXT, st.booleans(), st.booleans())
def test_a_moved_message_has_its_hash_on_both_clusters(
    properties: BasicProperties, exchange: str, key: str, redelivered: bool, forward: bool
) -> None:
    entered: list[tuple[int, bool]] = []
    moving = transform(entered, forward=forward)
    taken = delivery(properties, exchange, key, redelivered=redelivered)
    sent = moving(taken, NO_CONNECTION)
    moving.moved(taken)
    assert (sent.exchange, sent.routing_key, sent.body) == ("", "work", b"body")
    assert entered == [(plain_hash(plain("", "work", sent.properties), sent.body), redelivered)]
    there = plain("", "work", sent.properties)
    assert (there.exchange, there.routing_key, there.flagged) == (exchange, key, redelivered)
    assert there.properties.user_id == properties.user_id
    assert decode_properties(sent.properties, 0).user_id is None, "the broker accepts the login's user only"


def test_numbers_begin_anew_with_each_attempt() -> None:
    moving = transform([])
    numbers = []
    for _ in range(3):
        headers = (
            decode_properties(moving(delivery(BasicProperties()), NO_CONNECTION).properties, 0).headers or {}
        )
        numbers.append((headers["x-producer"].value, headers["x-publish-id"].value))
    moving.restart("m1-2")
    headers = (
        decode_properties(moving(delivery(BasicProperties()), NO_CONNECTION).properties, 0).headers or {}
    )
    assert numbers == [(b"migration:m1-1", 1), (b"migration:m1-1", 2), (b"migration:m1-1", 3)]
    assert (headers["x-producer"].value, headers["x-publish-id"].value) == (b"migration:m1-2", 1)


def test_templates_of_different_messages_have_a_limit() -> None:
    entered: list[tuple[int, bool]] = []
    moving = MovingTransform(
        "work", forward=True, enter=lambda *entry: entered.append(entry), templates_bytes_max=100_000
    )
    moving.restart("m1-1")
    taken = [delivery(BasicProperties(message_id=f"{n:0200}")) for n in range(200)]
    tracemalloc.start()
    try:
        sent = [moving(each, NO_CONNECTION) for each in taken]
        sent_bytes = sum(len(each.properties) for each in sent)
        held_bytes = tracemalloc.get_traced_memory()[0] - sent_bytes
    finally:
        tracemalloc.stop()
    assert moving.templates_bytes <= 100_000
    assert held_bytes < 200_000, "200 templates take more than 400 kB"
    for each in taken:
        moving.moved(each)
    assert entered == [(plain_hash(plain("", "work", each.properties), b"body"), False) for each in sent]


def test_a_template_above_the_limit_is_not_kept() -> None:
    moving = MovingTransform("work", forward=True, enter=lambda *_: None, templates_bytes_max=10_000)
    moving.restart("m1-1")
    for number in (1, 2):
        large = delivery(BasicProperties(message_id="x" * 200, headers=table_of({"large": "x" * 50_000})))
        headers = decode_properties(moving(large, NO_CONNECTION).properties, 0).headers or {}
        assert (headers["x-publish-id"].value, moving.templates_bytes) == (number, 0)


def test_copies_to_other_keys_are_not_routed_again() -> None:
    copies = BasicProperties(headers={"CC": Field("A", [Field("S", b"other")])})
    sent = transform([])(delivery(copies), NO_CONNECTION)
    assert "CC" not in (decode_properties(sent.properties, 0).headers or {})
    assert plain("", "work", sent.properties).properties.headers == copies.headers


def test_a_message_for_the_queue_itself_stays_as_it_is_on_the_way_back() -> None:
    properties = BasicProperties(delivery_mode=2, headers=table_of({"n": 1}))
    sent = transform([], forward=False)(delivery(properties, "", "work"), NO_CONNECTION)
    assert sent.properties == encode_properties(properties)


def test_a_repeat_stays_marked_over_several_moves() -> None:
    first = transform([])(delivery(BasicProperties(), redelivered=True), NO_CONNECTION)
    taken = Delivery(1, "tag", 1, False, "", "work", first.properties, b"body")
    back = transform([], forward=False)(taken, NO_CONNECTION)
    assert plain("", "work", back.properties).flagged


def test_the_ledger_survives_a_cut_last_line() -> None:
    ledger = MoveLedger()
    for value in (5, 7):
        ledger.enter("forward", ("/", "a"), value, value == 7)
    content = ledger.changed_lines()
    assert content
    ledger.mark_saved()
    assert ledger.changed_lines() == b""
    ledger.enter("forward", ("/", "a"), 9, False)
    cut = content + ledger.changed_lines()[:-4]
    assert MoveLedger.read(cut).of("forward", ("/", "a")) == Moved(2, 12, 1)
    assert MoveLedger.read(ledger.all_lines()).moved == ledger.moved


def test_the_digest_does_not_depend_on_the_order() -> None:
    ledgers = [MoveLedger(), MoveLedger()]
    for ledger, values in zip(ledgers, ((2**127 + 1, 3, 2**127), (3, 2**127, 2**127 + 1)), strict=True):
        for value in values:
            ledger.enter("forward", ("/", "a"), value, False)
    assert ledgers[0].moved == ledgers[1].moved == {("forward", ("/", "a")): Moved(3, 4, 0)}
