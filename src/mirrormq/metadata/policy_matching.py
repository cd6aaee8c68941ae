"""Policy matching: which policy governs a queue or an exchange, and its effective settings.

At most one policy and one operator policy apply to a name: those with the highest priority. (Of equal
priorities, the first by name applies; RabbitMQ leaves that open.) The operator policy adds its limits to
the policy's; where both set one, the smaller applies. The result is merged with the arguments of the
client's declaration. Of limits again the smaller applies, so no client escapes an operator's limit. All
other arguments of the client override the policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from mirrormq.auth import patterns
from mirrormq.metadata.policy_checks import (
    PolicyInvalid,
    validate_operator_policy,
    validate_policy,
    validate_policy_fields,
)
from mirrormq.metadata.records import OperatorPolicy, Policy
from mirrormq.metadata.state import MetadataState
from mirrormq.wire.fields import Field

__all__ = [
    "EffectivePolicy",
    "PolicyInvalid",
    "PolicyMatcher",
    "effective_arguments",
    "governs",
    "overruled",
    "validate_operator_policy",
    "validate_policy",
    "validate_policy_fields",
]

Kind = Literal["queues", "exchanges"]

ANSWERS_CACHED_MAX = 65_536
"""Bound of the cache of effective policies, which is cleared when full. Six times the queues we test with."""

_APPLIES = {
    "queues": frozenset({"queues", "all", "classic_queues"}),
    "exchanges": frozenset({"exchanges", "all"}),
}
"""Values of `apply_to` per kind. Later RabbitMQs write classic_queues into definitions; all our queues are
classic."""

SMALLER_COUNTS = frozenset(
    {
        "message-ttl",
        "expires",
        "max-length",
        "max-length-bytes",
        "max-in-memory-length",
        "max-in-memory-bytes",
        "delivery-limit",
    }
)


class EffectivePolicy(NamedTuple):
    """Effective policy of one queue or exchange."""

    policy: str | None
    operator_policy: str | None
    definition: dict[str, Any]
    """Merged settings. Shared: must not be changed."""


NO_POLICY = EffectivePolicy(None, None, {})


class PolicyMatcher:
    """Cache of the effective policies of one state, valid until its policies change."""

    def __init__(self, state: MetadataState) -> None:
        self._state = state
        self._version = -1
        self._answers: dict[tuple[str, str, Kind], EffectivePolicy] = {}
        self._policies: dict[str, list[Policy]] = {}
        self._operator_policies: dict[str, list[OperatorPolicy]] = {}

    def effective(self, vhost: str, name: str, kind: Kind) -> EffectivePolicy:
        """Return the merged policies in force for a queue or an exchange."""
        if self._version != self._state.policy_version:
            self._begin_version()
        key = (vhost, name, kind)
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= ANSWERS_CACHED_MAX:
                self._answers.clear()
            policy = _first_match(self._policies.get(vhost, ()), name, kind)
            operator_policy = _first_match(self._operator_policies.get(vhost, ()), name, kind)
            answer = self._answers[key] = merge(policy, operator_policy)
        return answer

    def _begin_version(self) -> None:
        self._answers.clear()
        self._policies = _in_order(self._state.policies.values())
        self._operator_policies = _in_order(self._state.operator_policies.values())
        self._version = self._state.policy_version


def merge(policy: Policy | None, operator_policy: OperatorPolicy | None) -> EffectivePolicy:
    """Merge a policy with the limits of an operator policy."""
    if policy is None and operator_policy is None:
        return NO_POLICY
    definition = dict(policy.definition) if policy else {}
    for key, value in operator_policy.definition.items() if operator_policy else ():
        definition[key] = min(definition[key], value) if _both_limits(key, definition, value) else value
    return EffectivePolicy(
        policy.name if policy else None, operator_policy.name if operator_policy else None, definition
    )


def governs(policy: Policy | OperatorPolicy, others: Iterable[Any], name: str, kind: Kind) -> bool:
    """Return whether this policy would be in force, beside other policies of its kind and vhost."""
    ranked = sorted([policy, *others], key=_rank)
    return _first_match(ranked, name, kind) is policy


def overruled(
    policy: Policy, others: Iterable[Policy], queues: Iterable[str]
) -> Iterator[tuple[str, Policy]]:
    """Yield each queue that the policy matches and another policy governs, with that other policy."""
    ranked = sorted([policy, *others], key=_rank)
    for name in queues:
        winner = _first_match(ranked, name, "queues")
        if winner is not None and winner is not policy and _first_match([policy], name, "queues"):
            yield name, winner


def effective_arguments(arguments: Mapping[str, Field], policy: EffectivePolicy) -> dict[str, Any]:
    """Return a queue's settings, named as in policies ("max-length"), strings as str.

    The result holds all keys of the policy and all that an `x-` argument can set, including x-max-priority
    and similar ones (as "max-priority").
    """
    settings = dict(policy.definition)
    for name, field in arguments.items():
        if not name.startswith("x-"):
            continue
        key = name[2:]
        value = field.value
        if isinstance(value, bytes):
            value = value.decode("utf-8", "surrogateescape")
        settings[key] = min(value, settings[key]) if _both_limits(key, settings, value) else value
    return settings


def _both_limits(key: str, settings: Mapping[str, Any], value: Any) -> bool:
    return key in SMALLER_COUNTS and key in settings and isinstance(value, int)


def _rank(policy: Any) -> tuple[float, str]:
    return -policy.priority, policy.name


def _in_order(policies: Any) -> dict[str, list[Any]]:
    by_vhost: dict[str, list[Any]] = {}
    for policy in sorted(policies, key=_rank):
        by_vhost.setdefault(policy.vhost, []).append(policy)
    return by_vhost


def _first_match(policies: Any, name: str, kind: Kind) -> Any:
    for policy in policies:
        if policy.apply_to in _APPLIES[kind] and patterns.matches(policy.pattern, name):
            return policy
    return None
