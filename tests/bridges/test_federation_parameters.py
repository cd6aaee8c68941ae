"""Parameters and policies of federation: the texts of RabbitMQ 3.10.8, and values that it should refuse."""

from __future__ import annotations

from typing import Any

import pytest

from mirrormq.bridges.federation_parameters import faults, upstream_of
from mirrormq.metadata.policy_checks import PolicyInvalid, validate_operator_policy, validate_policy

ALL_WRONG = {
    "zz": 1, "aa": "x", "exchange": 5, "queue": 5, "consumer-tag": 5, "ack-mode": 5, "ha-policy": 5, "uri": 5,
    "resource-cleanup-mode": 5, "channel-use-mode": 5, "trust-user-id": 5, "bind-nowait": 5,
    "prefetch-count": "x", "reconnect-delay": "x", "max-hops": "x", "expires": "x", "message-ttl": "x",
}  # fmt: skip
ALL_FAULTS = [
    'Unrecognised terms [{<<"aa">>,<<"x">>},{<<"zz">>,1}] in n',
    "channel-use-mode should be binary, actually was 5",
    "bind-nowait should be boolean, actually was 5",
    "ha-policy should be binary, actually was 5",
    "resource-cleanup-mode should be binary, actually was 5",
    "ack-mode should be binary, actually was 5",
    "trust-user-id should be boolean, actually was 5",
    'message-ttl should be a number, actually was <<"x">>',
    'expires should be a number, actually was <<"x">>',
    'max-hops should be a number, actually was <<"x">>',
    'reconnect-delay should be a number, actually was <<"x">>',
    'prefetch-count should be a number, actually was <<"x">>',
    "consumer-tag should be binary, actually was 5",
    "queue should be binary, actually was 5",
    "exchange should be binary, actually was 5",
    "uri should be list, actually was 5",
]


def test_all_faults_are_reported_at_once_in_rabbitmqs_order() -> None:
    assert faults("federation-upstream", "n", ALL_WRONG) == ALL_FAULTS


@pytest.mark.parametrize(
    ("uri", "fault"),
    [
        ("http://x", '"http://x" not a valid URI: {{unexpected_uri_scheme,"http"},"http://x"}'),
        (
            ["amqp://a", "http://x", 3],
            '"http://x" not a valid URI: {{unexpected_uri_scheme,"http"},"http://x"}',
        ),
        ([3, "http://x"], "uri should be list, actually was 3"),
        (None, "uri should be list, actually was null"),
        ({"a": 1}, 'uri should be list, actually was #{<<"a">> => 1}'),
        ("amqp://:5672", '"amqp://:5672" not a valid URI: {port_requires_host,"amqp://:5672"}'),
        ("", '"" not a valid URI: {{unable_to_parse_uri,no_scheme},[]}'),
        ("amqp://h:99999", '"amqp://h:99999" not a valid URI: {{port_out_of_range,99999},"amqp://h:99999"}'),
        (
            "amqp://user:secret@h:99999",
            '"amqp://user:******@h:99999" not a valid URI: {{port_out_of_range,99999},\n'
            '                                               "amqp://user:******@h:99999"}',
        ),
        (
            "amqp://h/%zz",
            "\"amqp://h/%zz\" not a valid URI: {{invalid_entitiy,['%',122,122]},\n"
            '                                 "amqp://h/%zz"}',
        ),
        ([], "uri should be a list of at least one URI, actually was []"),
    ],
)
def test_a_uri_is_refused_with_rabbitmqs_text(uri: object, fault: str) -> None:
    assert faults("federation-upstream", "n", {"uri": uri}) == [fault]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([{"upstream": "a"}, {"upstream": "b", "max-hops": 2}], []),
        ([], []),
        ({}, []),
        (
            [{"upstream": 3, "max-hops": "x"}, {}],
            [
                'max-hops should be a number, actually was <<"x">>',
                "upstream should be binary, actually was 3",
                'Key "upstream" not found in s',
            ],
        ),
        (
            [{"upstream": "a", "uri": "amqp://"}],
            ['Unrecognised terms [{<<"uri">>,<<"amqp://">>}] in s'],
        ),
        ([{"upstream": "a"}, {"upstream": "a"}], ['Upstream <<"a">> is listed more than once in s']),
        ("x", ['s not a list <<"x">>']),
        (["a"], ['s not a list <<"a">>']),
    ],
)
def test_an_upstream_set_is_a_list_of_different_upstreams(value: Any, expected: list[str]) -> None:
    assert faults("federation-upstream-set", "s", value) == expected


def test_other_values_and_the_component_federation_are_refused() -> None:
    assert faults("federation-upstream", "n", []) == ['Key "uri" not found in n']
    for value in ("x", 5, None):
        assert len(faults("federation-upstream", "n", value)) == 1
    assert faults("federation", "bad", {}) == ['name not recognised: <<"bad">>']
    assert faults("federation-upstream", "n", {"uri": "amqp://", "ack-mode": "x"}) == [
        'ack-mode should be one of [<<"no-ack">>,<<"on-publish">>,<<"on-confirm">>], actually was <<"x">>'
    ]


def test_an_entry_of_a_set_overrides_its_upstream() -> None:
    found = upstream_of("u", {"uri": ["amqp://a", "amqp://b"], "max-hops": 3, "expires": 10}, {"max-hops": 2})
    assert found.uris == ("amqp://a", "amqp://b")
    assert (found.max_hops, found.expires_ms, found.message_ttl_ms) == (2, 10, None)
    assert (found.prefetch, found.reconnect_delay_s, found.consumer_tag) == (1000, 5, "federation-link-u")


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({"federation-upstream": 3}, "3 is not a valid federation upstream name"),
        ({"federation-upstream-set": [1]}, "[1] is not a valid federation upstream set name"),
        ({"federation-upstream-pattern": 5}, "5 is not a valid federation upstream pattern name"),
        (
            {"federation-upstream-pattern": "("},
            'could not compile pattern ( to a regular expression. Error: {"missing )",1}',
        ),
        (
            {"federation-upstream": "a", "federation-upstream-set": "b"},
            "cannot specify federation-upstream, federation-upstream-set or federation-upstream-pattern"
            " together",
        ),
        ({"federation-upstream": 3, "alternate-exchange": 7}, "3 is not a valid federation upstream name"),
        (
            {"federation-upstream": 3, "queue-master-locator": "x"},
            '<<"x">> invalid queue-master-locator value',
        ),
    ],
)
def test_a_policy_names_upstreams_in_one_way(definition: dict[str, Any], text: str) -> None:
    with pytest.raises(PolicyInvalid) as refused:
        validate_policy(definition)
    assert str(refused.value) == text


def test_valid_policies_federate_and_operator_policies_do_not() -> None:
    validate_policy({"federation-upstream-set": "all", "ha-mode": "all"})
    validate_policy({"federation-upstream-pattern": "^eu-"})
    with pytest.raises(PolicyInvalid, match="are not recognised policy settings"):
        validate_operator_policy({"federation-upstream": "a"})


@pytest.mark.parametrize("delay", [0, -1, 0.0001])
def test_a_federation_link_never_gives_up(delay: float) -> None:
    assert upstream_of("u", {"uri": "amqp://b", "reconnect-delay": delay}, {}).reconnect_delay_s == 0.1
