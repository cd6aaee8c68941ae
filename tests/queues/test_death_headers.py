"""Spliced dead-letter headers equal those of a message that was decoded and encoded again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.queues.death_headers import first_death, new_death, with_first_death
from mirrormq.wire.fields import Field, Table, table_of
from mirrormq.wire.properties import BasicProperties, decode_properties, encode_properties

NAMES = st.text("abc.é", min_size=0, max_size=8)
HEADERS = st.none() | st.dictionaries(
    st.text("abx-", min_size=1, max_size=5),
    st.integers(-5, 5) | st.text(max_size=4) | st.booleans() | st.none(),
    max_size=4,
)
MESSAGES = st.builds(
    BasicProperties,
    content_type=st.none() | NAMES,
    content_encoding=st.none() | NAMES,
    headers=HEADERS.map(lambda values: None if values is None else table_of(values)),
    delivery_mode=st.none() | st.sampled_from([1, 2]),
    priority=st.none() | st.integers(0, 255),
    correlation_id=st.none() | NAMES,
    reply_to=st.none() | NAMES,
    expiration=st.none() | st.sampled_from(["0", "1000"]),
    message_id=st.none() | NAMES,
    timestamp=st.none() | st.integers(0, 2**40),
    type_=st.none() | NAMES,
    user_id=st.none() | NAMES,
    app_id=st.none() | NAMES,
    cluster_id=st.none() | NAMES,
)


@given(
    MESSAGES, NAMES, NAMES, NAMES, st.sampled_from(["expired", "maxlen", "rejected"]), st.integers(0, 2**33)
)
def test_spliced_properties_are_those_of_the_encoder(
    properties: BasicProperties, queue: str, exchange: str, key: str, reason: str, time_s: int
) -> None:
    death = new_death(queue, reason, exchange, (key,), time_s, properties.expiration)
    headers: Table = {
        **(properties.headers or {}),
        "x-death": Field("A", [Field("F", death)]),
        **first_death(exchange, queue, reason),
    }
    expected = encode_properties(properties._replace(headers=headers, expiration=None))
    spliced = with_first_death(encode_properties(properties), queue, reason, exchange, key, time_s)
    assert spliced == expected
    assert decode_properties(spliced, 0).expiration is None


@pytest.mark.parametrize("name", ["x-death", "CC", "BCC", "x-first-death-queue"])
def test_a_message_whose_headers_matter_is_decoded(name: str) -> None:
    payload = encode_properties(BasicProperties(headers=table_of({"a": 1, name: []})))
    assert with_first_death(payload, "q", "expired", "", "q", 0) is None
