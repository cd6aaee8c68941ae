"""Parameters of shovels: the texts of RabbitMQ 3.10.8, and definitions of valid values."""

from __future__ import annotations

from typing import Any

import pytest

from mirrormq.bridges.link_plan import AckMode
from mirrormq.bridges.shovel_parameters import definition_of, faults

ENDS = {"src-uri": "amqp://", "dest-uri": "amqp://"}
VALID = {**ENDS, "src-queue": "a", "dest-queue": "b"}


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        (
            {},
            [
                "Must specify 'src-exchange' or 'src-queue'",
                'Key "dest-uri" not found in n',
                'Key "src-uri" not found in n',
            ],
        ),
        ({**VALID, "src-exchange": "x"}, ["Cannot specify 'src-exchange' and 'src-queue'"]),
        ({**VALID, "dest-exchange": "x"}, ["Cannot specify 'dest-exchange' and 'dest-queue'"]),
        ({**VALID, "src-uri": "x"}, ['"x" not a valid URI: {{unable_to_parse_uri,no_scheme},"x"}']),
        ({**VALID, "src-uri": 5}, ["src-uri should be list, actually was 5"]),
        (
            {**VALID, "src-delete-after": "x"},
            [
                'src-delete-after should be a number greater than or equal to 0, "never" or "queue-length", '
                'actually was <<"x">>'
            ],
        ),
        (
            {**VALID, "ack-mode": "no-ack", "src-delete-after": 3},
            ["Cannot specify 'no-ack' and numerical 'delete-after'"],
        ),
        ({**VALID, "ack-mode": "no-ack", "src-delete-after": "queue-length"}, []),
        ({**VALID, "dest-queue": "q" * 256}, ["dest-queue should be less than 255 bytes, actually was 256"]),
        ({**VALID, "dest-queue": 3}, ["dest-queue should be binary, actually was 3"]),
        (
            {**VALID, "src-queue-args": {"x-foo": 1}},
            ['Unrecognised terms [{<<"x-foo">>,1}] in src-queue-args'],
        ),
        (
            {**VALID, "dest-publish-properties": {"delivery_mode": "x"}},
            ['delivery_mode should be a number, actually was <<"x">>'],
        ),
        (
            {**VALID, "dest-publish-properties": {"content_type": 3}},
            ["content_type should be binary, actually was 3"],
        ),
        (
            {**VALID, "dest-publish-properties": {"headers": {"a": [1, {"b": True}], "c": None}}},
            [],
        ),
        ({**VALID, "dest-publish-properties": {"headers": 3}}, ["headers not a list 3"]),
        (
            {**VALID, "dest-publish-properties": {"headers": {"n": 2**63}}},
            [f"headers cannot be headers of a message: {2**63} does not fit a field of 64 bits"],
        ),
        (
            {**VALID, "dest-unroutable": "x"},
            ['dest-unroutable should be one of [<<"keep">>,<<"drop">>], actually was <<"x">>'],
        ),
        ({**VALID, "src-predeclared": 1}, ["src-predeclared should be boolean, actually was 1"]),
        (
            {**VALID, "src-consumer-name": "c" * 256},
            ["src-consumer-name should be less than 255 bytes, actually was 256"],
        ),
        ({**VALID, "dest-publish-properties": "x"}, ['dest-publish-properties not a list <<"x">>']),
        (VALID, []),
        (
            {**VALID, "src-delete-after": 2.5},
            [
                'src-delete-after should be a number greater than or equal to 0, "never" or "queue-length", '
                "actually was 2.5"
            ],
        ),
        (
            {**VALID, "src-protocol": "amqp"},
            ['src-protocol should be one of [<<"amqp10">>,<<"amqp091">>], actually was <<"amqp">>'],
        ),
        (
            {**VALID, "src-protocol": "amqp10"},
            ['Unrecognised terms [{<<"src-queue">>,<<"a">>}] in n', 'Key "src-address" not found in n'],
        ),
        (
            {**VALID, "dest-protocol": "amqp10"},
            ['Unrecognised terms [{<<"dest-queue">>,<<"b">>}] in n', 'Key "dest-address" not found in n'],
        ),
        (
            {
                **ENDS,
                "src-protocol": "amqp10",
                "src-address": "a",
                "dest-protocol": "amqp10",
                "dest-address": "b",
                "dest-properties": {"creation-time": 3},
                "dest-message-annotations": 4,
            },
            [
                "creation-time should be binary, actually was 3",
                "dest-message-annotations not a list 4",
            ],
        ),
        ({**ENDS, "src-protocol": "amqp10", "src-address": "a", "dest-queue": "b"}, []),
    ],
)
def test_faults_have_rabbitmqs_texts(value: dict[str, Any], lines: list[str]) -> None:
    assert faults("n", value) == lines


def test_new_names_win_over_old_ones() -> None:
    value = {
        **VALID,
        "prefetch-count": 5,
        "src-prefetch-count": 7,
        "delete-after": "never",
        "src-delete-after": 3,
        "add-forward-headers": False,
        "dest-add-forward-headers": True,
        "publish-properties": {"priority": 1},
        "dest-publish-properties": {"priority": 2},
    }
    definition = definition_of(value)
    assert (definition.prefetch, definition.limit, definition.add_forward_headers) == (7, 3, True)
    assert definition.publish_properties == {"priority": 2}


def test_defaults_are_rabbitmqs() -> None:
    definition = definition_of(VALID)
    assert (definition.prefetch, definition.reconnect_delay_s) == (1000, 5.0)
    assert definition.ack_mode is AckMode.ON_CONFIRM and definition.limit is None
