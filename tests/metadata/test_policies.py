"""Policies: who wins, as seen on RabbitMQ 3.10.8, and its words for definitions it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from mirrormq.metadata import commands as c
from mirrormq.metadata import records as r
from mirrormq.metadata.policy_matching import (
    EffectivePolicy,
    PolicyInvalid,
    PolicyMatcher,
    effective_arguments,
    validate_operator_policy,
    validate_policy,
    validate_policy_fields,
)
from mirrormq.metadata.state import MetadataState
from mirrormq.wire.fields import Field

POLICY: dict[str, Any] = {
    "max-length": 10,
    "max-length-bytes": 1000,
    "message-ttl": 60000,
    "expires": 600000,
    "overflow": "reject-publish",
    "dead-letter-exchange": "pdlx",
    "dead-letter-routing-key": "prk",
    "queue-mode": "lazy",
    "queue-version": 2,
}
TIGHT: dict[str, Any] = {
    "max-length": 5,
    "message-ttl": 30000,
    "expires": 300000,
    "max-length-bytes": 500,
}
LOOSE: dict[str, Any] = {
    "max-length": 50,
    "message-ttl": 90000,
    "expires": 900000,
    "max-length-bytes": 5000,
}

SMALL_ARGUMENTS = {
    "x-max-length": Field("I", 3),
    "x-max-length-bytes": Field("I", 300),
    "x-message-ttl": Field("I", 20000),
    "x-expires": Field("I", 200000),
    "x-overflow": Field("S", b"drop-head"),
    "x-dead-letter-exchange": Field("S", b"adlx"),
    "x-dead-letter-routing-key": Field("S", b"ark"),
    "x-queue-mode": Field("S", b"default"),
    "x-queue-version": Field("I", 1),
}
BIG_ARGUMENTS = {
    "x-max-length": Field("I", 30),
    "x-max-length-bytes": Field("I", 3000),
    "x-message-ttl": Field("I", 200000),
    "x-expires": Field("I", 2000000),
    "x-dead-letter-exchange": Field("S", b""),
    "x-queue-mode": Field("S", b"default"),
}

KEYS = (
    "expires",
    "message-ttl",
    "dead-letter-exchange",
    "dead-letter-routing-key",
    "max-length",
    "max-length-bytes",
    "queue-mode",
    "queue-version",
)

SEEN_ON_RABBITMQ = [
    # policy, operator policy, arguments → what the queue process was running with, in the order of KEYS
    (None, None, {}, (None, None, None, None, None, None, None, None)),
    (None, None, SMALL_ARGUMENTS, (200000, 20000, "adlx", "ark", 3, 300, "default", 1)),
    (None, None, BIG_ARGUMENTS, (2000000, 200000, "", None, 30, 3000, "default", None)),
    (POLICY, None, {}, (600000, 60000, "pdlx", "prk", 10, 1000, "lazy", 2)),
    (POLICY, None, SMALL_ARGUMENTS, (200000, 20000, "adlx", "ark", 3, 300, "default", 1)),
    (POLICY, None, BIG_ARGUMENTS, (600000, 60000, "", "prk", 10, 1000, "default", 2)),
    (POLICY, TIGHT, {}, (300000, 30000, "pdlx", "prk", 5, 500, "lazy", 2)),
    (POLICY, TIGHT, SMALL_ARGUMENTS, (200000, 20000, "adlx", "ark", 3, 300, "default", 1)),
    (POLICY, TIGHT, BIG_ARGUMENTS, (300000, 30000, "", "prk", 5, 500, "default", 2)),
    (POLICY, LOOSE, {}, (600000, 60000, "pdlx", "prk", 10, 1000, "lazy", 2)),
    (POLICY, LOOSE, SMALL_ARGUMENTS, (200000, 20000, "adlx", "ark", 3, 300, "default", 1)),
    (POLICY, LOOSE, BIG_ARGUMENTS, (600000, 60000, "", "prk", 10, 1000, "default", 2)),
]


def state_with(*commands: c.Command) -> MetadataState:
    state = MetadataState()
    state.apply(c.PutVhost(r.Vhost("/")))
    for command in commands:
        state.apply(command)
    return state


def policy(
    name: str, pattern: str, definition: dict[str, Any], priority: float = 0, apply_to: str = "queues"
) -> c.Command:
    return c.PutPolicy(r.Policy("/", name, pattern, apply_to, definition, priority))


def operator(name: str, definition: dict[str, Any], priority: float = 0) -> c.Command:
    return c.PutOperatorPolicy(r.OperatorPolicy("/", name, "tie", "queues", definition, priority))


@pytest.mark.parametrize(("given", "cap", "arguments", "expected"), SEEN_ON_RABBITMQ)
def test_arguments_policies_and_operator_policies_meet_as_in_rabbitmq(
    given: dict[str, Any] | None,
    cap: dict[str, Any] | None,
    arguments: dict[str, Field],
    expected: tuple[object, ...],
) -> None:
    state = state_with()
    if given is not None:
        state.apply(policy("full", "^tie", given))
    if cap is not None:
        state.apply(operator("cap", cap))
    settings = effective_arguments(arguments, PolicyMatcher(state).effective("/", "tie", "queues"))
    assert tuple(settings.get(key) for key in KEYS) == expected


def test_the_highest_priority_wins_alone() -> None:
    state = state_with(policy("low", "^tie$", {"max-length": 1, "expires": 5}, 0))
    policies = PolicyMatcher(state)
    assert policies.effective("/", "tie", "queues").policy == "low"
    state.apply(policy("middle", "tie", {"max-length": 3}, 0.5))
    assert policies.effective("/", "tie", "queues") == EffectivePolicy("middle", None, {"max-length": 3})
    state.apply(policy("everything", "", {"max-length": 4}, 1))
    assert policies.effective("/", "tie", "queues").policy == "everything"
    state.apply(policy("exchanges", "tie", {"max-length": 6}, 9, "exchanges"))
    assert policies.effective("/", "tie", "queues").policy == "everything"
    assert policies.effective("/", "tie", "exchanges").policy == "exchanges"
    state.apply(c.DeletePolicy("/", "everything"))
    assert policies.effective("/", "tie", "queues").policy == "middle"


def test_a_negative_priority_is_still_a_policy_and_patterns_are_not_anchored() -> None:
    state = state_with(policy("neg", "i", {"max-length": 5, "overflow": "drop-head"}, -1))
    state.apply(operator("op", {"message-ttl": 7}))
    found = PolicyMatcher(state).effective("/", "tie", "queues")
    assert found == EffectivePolicy("neg", "op", {"max-length": 5, "message-ttl": 7, "overflow": "drop-head"})
    state.apply(operator("op2", {"max-length": 1}, 1))
    found = PolicyMatcher(state).effective("/", "tie", "queues")
    assert found == EffectivePolicy("neg", "op2", {"max-length": 1, "overflow": "drop-head"})
    state.apply(c.DeletePolicy("/", "neg"))
    assert PolicyMatcher(state).effective("/", "tie", "queues") == EffectivePolicy(
        None, "op2", {"max-length": 1}
    )


def test_of_equal_priorities_the_first_name_wins_whatever_came_first() -> None:
    one, other = policy("a", "tie", {"max-length": 1}), policy("z", "tie", {"max-length": 2})
    for commands in ((one, other), (other, one)):
        assert PolicyMatcher(state_with(*commands)).effective("/", "tie", "queues").policy == "a"


def test_policies_of_another_vhost_do_not_apply() -> None:
    state = state_with(policy("p", "", {"max-length": 1}))
    assert PolicyMatcher(state).effective("other", "tie", "queues") == EffectivePolicy(None, None, {})


MIRRORED = {"ha-mode": "all"}
HA_MODE_MISSING = "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"

REFUSED_BY_RABBITMQ: list[tuple[dict[str, Any], str]] = [
    ({}, "no policy provided"),
    ({"message-ttl": -1}, "-1 is not a valid message TTL"),
    ({"message-ttl": True}, "true is not a valid message TTL"),
    ({"message-ttl": {"a": 1}}, '#{<<"a">> => 1} is not a valid message TTL'),
    ({"expires": 0}, "0 is not a valid queue expiry"),
    ({"max-length": "x"}, '<<"x">> is not a valid maximum length'),
    ({"max-length-bytes": 1.5}, "1.5 is not a valid maximum length in bytes"),
    ({"max-in-memory-length": -1}, "-1 is not a valid maximum memory in bytes"),
    ({"max-in-memory-bytes": ["a"]}, '[<<"a">>] is not a valid maximum memory in bytes'),
    ({"overflow": "x"}, '<<"x">> is not a valid overflow value'),
    ({"dead-letter-exchange": None}, "null is not a valid dead letter exchange name"),
    ({"dead-letter-routing-key": []}, "[] is not a valid dead letter routing key"),
    ({"dead-letter-strategy": "x"}, '<<"x">> is not a valid dead letter strategy'),
    ({"alternate-exchange": 1}, "1 is not a valid alternate exchange name"),
    ({"queue-mode": "x"}, '<<"x">> is not a valid queue-mode value'),
    ({"queue-version": 3}, "3 is not a valid queue-version value"),
    ({"queue-version": True}, "true is not a valid queue-version value"),
    ({"queue-master-locator": "x"}, '<<"x">> invalid queue-master-locator value'),
    ({"queue-leader-locator": "x"}, '<<"x">> is not a valid queue leader locator value'),
    ({"initial-cluster-size": -1}, "-1 is not a valid cluster size"),
    ({"stream-max-segment-size-bytes": -1}, "-1 is not a valid segment size"),
    ({"max-age": "1x"}, '<<"1x">> is not a valid max age'),
    ({"delivery-limit": -1}, "-1 is not a valid delivery limit"),
    ({"consumer-timeout": 5}, '[{<<"consumer-timeout">>,5}] are not recognised policy settings'),
    ({"max-priority": -1}, '[{<<"max-priority">>,-1}] are not recognised policy settings'),
    (
        {"zzz": 2, "nonsense": 1, "max-length": 1},
        '[{<<"nonsense">>,1},{<<"zzz">>,2}] are not recognised policy settings',
    ),
    ({"message-ttl": -1, "expires": -1}, "-1 is not a valid queue expiry"),
    ({"nonsense": 1, "message-ttl": -1}, "-1 is not a valid message TTL"),
    ({"message-ttl": -1, "ha-mode": "x"}, "-1 is not a valid message TTL"),
    ({"queue-master-locator": "x", "alternate-exchange": 1}, '<<"x">> invalid queue-master-locator value'),
    ({"ha-mode": "x", "ha-params": 3}, '<<"x">> is not a valid ha-mode value'),
    ({**MIRRORED, "ha-params": 1}, 'ha-mode="all" does not take parameters'),
    ({**MIRRORED, "ha-params": None}, 'ha-mode="all" does not take parameters'),
    ({"ha-mode": "exactly"}, 'ha-mode="exactly" takes an integer, none given'),
    ({"ha-mode": "exactly", "ha-params": 0}, 'ha-mode="exactly" takes an integer, 0 given'),
    ({"ha-mode": "exactly", "ha-params": "x"}, 'ha-mode="exactly" takes an integer, <<"x">> given'),
    ({"ha-mode": "nodes"}, 'ha-mode="nodes" takes a list, none given'),
    ({"ha-mode": "nodes", "ha-params": []}, 'ha-mode="nodes" list must be non-empty'),
    ({"ha-mode": "nodes", "ha-params": 3}, 'ha-mode="nodes" takes a list, 3 given'),
    (
        {"ha-mode": "nodes", "ha-params": [1, 2, "a", None]},
        'ha-mode="nodes" takes a list of strings, [1,2,null] was not a string',
    ),
    ({"ha-params": 2}, HA_MODE_MISSING),
    ({"ha-sync-mode": "manual"}, HA_MODE_MISSING),
    ({"ha-promote-on-failure": "always"}, HA_MODE_MISSING),
    ({**MIRRORED, "ha-sync-mode": 1}, 'ha-sync-mode must be "manual" or "automatic", got 1'),
    (
        {**MIRRORED, "ha-sync-mode": "x", "ha-sync-batch-size": -1},
        'ha-sync-mode must be "manual" or "automatic", got <<"x">>',
    ),
    (
        {**MIRRORED, "ha-sync-batch-size": -1, "ha-promote-on-shutdown": "x"},
        "ha-sync-batch-size takes an integer greater than 0, -1 given",
    ),
    (
        {**MIRRORED, "ha-promote-on-shutdown": "x", "ha-promote-on-failure": "x"},
        'ha-promote-on-shutdown must be "always" or "when-synced", got <<"x">>',
    ),
    (
        {**MIRRORED, "ha-promote-on-failure": 1},
        'ha-promote-on-failure must be "always" or "when-synced", got 1',
    ),
    ({**MIRRORED, "ha-orphans": "eat"}, 'ha-orphans must be "restore" or "keep", got <<"eat">>'),
    ({**MIRRORED, "ha-redeliver": "none"}, 'ha-redeliver must be "all" or "lost", got <<"none">>'),
    (
        {"ha-redeliver": "lost"},
        "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown",
    ),
]


@pytest.mark.parametrize(("definition", "text"), REFUSED_BY_RABBITMQ)
def test_a_wrong_definition_is_refused_in_rabbitmqs_words(definition: dict[str, Any], text: str) -> None:
    with pytest.raises(PolicyInvalid) as refusal:
        validate_policy(definition)
    assert str(refusal.value) == text


@pytest.mark.parametrize(
    "definition",
    [
        POLICY,
        {"message-ttl": 2**64},
        {"max-age": "5Y"},
        {"queue-leader-locator": "least-leaders"},
        {"queue-master-locator": "min-masters"},
        {"alternate-exchange": "x"},
        {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic", "ha-sync-batch-size": 1},
        {"ha-mode": "nodes", "ha-params": ["a"], "ha-promote-on-shutdown": "always"},
        {**MIRRORED, "ha-promote-on-failure": "when-synced", "ha-orphans": "keep"},
        {**MIRRORED, "ha-redeliver": "all"},
        {**MIRRORED, "ha-redeliver": "lost"},
    ],
)
def test_a_right_definition_is_taken(definition: dict[str, Any]) -> None:
    validate_policy(definition)


def test_an_operator_policy_may_only_set_limits() -> None:
    validate_operator_policy({**TIGHT, "max-in-memory-length": 1, "delivery-limit": 0})
    with pytest.raises(PolicyInvalid, match=r"^-1 is not a valid maximum length$"):
        validate_operator_policy({"max-length": -1})
    with pytest.raises(PolicyInvalid) as refusal:
        validate_operator_policy({"ha-mode": "exactly", "ha-params": 2})
    assert str(refusal.value) == (
        '[{<<"ha-mode">>,<<"exactly">>},{<<"ha-params">>,2}] are not recognised policy settings'
    )


@pytest.mark.parametrize(
    ("pattern", "apply_to", "priority", "text"),
    [
        ("(", "all", 0, 'pattern should be regular expression but is invalid: {"missing )",1}'),
        (1, "all", 0, "pattern should be a binary but was 1"),
        ("", "all", "x", 'priority should be a number, actually was <<"x">>'),
        ("", "x", 0, "apply-to 'x' unrecognised; should be 'queues', 'exchanges' or 'all'"),
        (
            "(",
            "all",
            "x",
            'pattern should be regular expression but is invalid: {"missing )",1}\n'
            'priority should be a number, actually was <<"x">>',
        ),
    ],
)
def test_wrong_fields_are_all_named(pattern: object, apply_to: str, priority: object, text: str) -> None:
    with pytest.raises(PolicyInvalid) as refusal:
        validate_policy_fields(pattern, apply_to, priority)
    assert str(refusal.value) == text


def test_right_fields_pass() -> None:
    validate_policy_fields("^a", "exchanges", -1.5)
