"""Validation of policy definitions, with the rules and error texts of RabbitMQ 3.10.

RabbitMQ runs several validators in turn and reports the first error: the validator of queue-master-locator,
then federation, then the settings of queues and exchanges in the order of their names, then mirroring as a
whole, and finally unknown keys. `ha-orphans` and `ha-redeliver` are extensions of MirrorMQ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from mirrormq.auth import patterns
from mirrormq.wire.erlang_terms import properties, term

APPLY_TO = ("queues", "exchanges", "all")

OPERATOR_KEYS = frozenset(
    {
        "delivery-limit",
        "expires",
        "max-in-memory-bytes",
        "max-in-memory-length",
        "max-length",
        "max-length-bytes",
        "message-ttl",
    }
)
"""Keys that an operator policy may set in RabbitMQ 3.10.8: limits, of which the smaller one counts."""

FEDERATION_PATTERN = "federation-upstream-pattern"
FEDERATION_KEYS = {
    "federation-upstream": "federation upstream",
    "federation-upstream-set": "federation upstream set",
    FEDERATION_PATTERN: "federation upstream pattern",
}
"""Policy keys that federate exchanges and queues, with RabbitMQ's words; a policy has at most one of them."""

_MAX_AGE = re.compile(r"[0-9]+[YMDhms]")


class PolicyInvalid(Exception):
    """Text behind RabbitMQ's "Validation failed"; one line for each error."""

    def __init__(
        self, text: str, *, expected: str = "", unknown: Iterable[str] = (), known: Iterable[str] = ()
    ) -> None:
        super().__init__(text)
        self.expected = expected
        """Sentence that describes the right value, where the text does not."""
        self.unknown = list(unknown)
        """Keys that no policy has, apart from those `known`."""
        self.known = list(known)


def validate_policy(definition: dict[str, Any]) -> None:
    """Raise PolicyInvalid unless a policy may have this definition."""
    known = frozenset(_SETTINGS) | frozenset(_HA_CHECKS) | frozenset(FEDERATION_KEYS)
    _validate(definition, known | {"ha-mode", "ha-params"})


def validate_operator_policy(definition: dict[str, Any]) -> None:
    """Raise PolicyInvalid unless an operator policy may have this definition."""
    _validate(definition, OPERATOR_KEYS)


def validate_policy_fields(pattern: Any, apply_to: Any, priority: Any) -> None:
    """Raise PolicyInvalid with all errors in the other fields of a policy."""
    complaints, expected = [], ""
    if apply_to not in APPLY_TO:
        complaints.append(f"apply-to '{apply_to}' unrecognised; should be 'queues', 'exchanges' or 'all'")
    if not isinstance(pattern, str):
        complaints.append(f"pattern should be a binary but was {term(pattern)}")
    else:
        try:
            patterns.check(pattern)
        except patterns.PatternInvalid as error:
            where = f'{{"{error.text}",{error.position}}}'
            complaints.append(f"pattern should be regular expression but is invalid: {where}")
            expected = (
                f"The pattern '{pattern}' cannot be read at character {error.position + 1}: {error.text}."
            )
    if isinstance(priority, bool) or not isinstance(priority, int | float):
        complaints.append(f"priority should be a number, actually was {term(priority)}")
    if complaints:
        raise PolicyInvalid("\n".join(complaints), expected=expected)


def _validate(definition: dict[str, Any], allowed: frozenset[str]) -> None:
    if not definition:
        raise PolicyInvalid("no policy provided")
    known = sorted(allowed.intersection(definition))
    upstreams = [key for key in known if key in FEDERATION_KEYS]
    for key in sorted(known, key=lambda key: (key != "queue-master-locator", key not in FEDERATION_KEYS)):
        if key in FEDERATION_KEYS:
            _validate_federation(definition, upstreams)
        if key in _SETTINGS:
            check, complaint = _SETTINGS[key]
            if not check.accepts(definition[key]):
                expected = f"'{key}' takes {check.expected}."
                raise PolicyInvalid(f"{term(definition[key])} {complaint}", expected=expected)
    if any(key.startswith("ha-") for key in known):
        _validate_mirroring(definition)
    if unknown := {key: value for key, value in definition.items() if key not in allowed}:
        text = f"{properties(unknown)} are not recognised policy settings"
        raise PolicyInvalid(text, unknown=unknown, known=allowed)


def _validate_federation(definition: dict[str, Any], keys: list[str]) -> None:
    if len(keys) > 1:
        *most, last = FEDERATION_KEYS
        raise PolicyInvalid(f"cannot specify {', '.join(most)} or {last} together")
    key, value = keys[0], definition[keys[0]]
    if not isinstance(value, str):
        raise PolicyInvalid(f"{term(value)} is not a valid {FEDERATION_KEYS[key]} name")
    if key == FEDERATION_PATTERN:
        try:
            patterns.check(value)
        except patterns.PatternInvalid as error:
            where = f'{{"{error.text}",{error.position}}}'
            text = f"could not compile pattern {value} to a regular expression. Error: {where}"
            raise PolicyInvalid(text) from None


def _validate_mirroring(definition: dict[str, Any]) -> None:
    if "ha-mode" not in definition:
        raise PolicyInvalid(
            "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
        )
    mode, parameters = definition["ha-mode"], definition.get("ha-params", _ABSENT)
    if not isinstance(mode, str) or mode not in _HA_PARAMETER_CHECKS:
        expected = "'ha-mode' takes 'all', 'exactly' or 'nodes'."
        raise PolicyInvalid(f"{term(mode)} is not a valid ha-mode value", expected=expected)
    if complaint := _HA_PARAMETER_CHECKS[mode](parameters):
        raise PolicyInvalid(f'ha-mode="{mode}" {complaint}')
    for key, check in _HA_CHECKS.items():
        if key in definition and (complaint := check(key, definition[key])):
            raise PolicyInvalid(complaint)


class _Check(NamedTuple):
    """Test of one setting's value, with a description of valid values."""

    accepts: Callable[[Any], bool]
    expected: str


def _integer(least: int) -> _Check:
    return _Check(lambda value: _is_integer(value, least), f"a whole number of at least {least}")


def _is_integer(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _one_of(*allowed: object) -> _Check:
    *most, last = (repr(each) for each in allowed)
    return _Check(
        lambda value: any(type(value) is type(each) and value == each for each in allowed),
        f"{', '.join(most)} or {last}",
    )


def _is_max_age(value: Any) -> bool:
    return isinstance(value, str) and _MAX_AGE.fullmatch(value) is not None


_TEXT = _Check(lambda value: isinstance(value, str), "a text in double quotes")
_AGE = _Check(_is_max_age, "a number and a unit, as '7D' or '12h'")

_SETTINGS: dict[str, tuple[_Check, str]] = {
    "alternate-exchange": (_TEXT, "is not a valid alternate exchange name"),
    "dead-letter-exchange": (_TEXT, "is not a valid dead letter exchange name"),
    "dead-letter-routing-key": (_TEXT, "is not a valid dead letter routing key"),
    "dead-letter-strategy": (_one_of("at-most-once", "at-least-once"), "is not a valid dead letter strategy"),
    "delivery-limit": (_integer(0), "is not a valid delivery limit"),
    "expires": (_integer(1), "is not a valid queue expiry"),
    "initial-cluster-size": (_integer(0), "is not a valid cluster size"),
    "max-age": (_AGE, "is not a valid max age"),
    "max-in-memory-bytes": (_integer(0), "is not a valid maximum memory in bytes"),
    "max-in-memory-length": (_integer(0), "is not a valid maximum memory in bytes"),
    "max-length": (_integer(0), "is not a valid maximum length"),
    "max-length-bytes": (_integer(0), "is not a valid maximum length in bytes"),
    "message-ttl": (_integer(0), "is not a valid message TTL"),
    "overflow": (
        _one_of("drop-head", "reject-publish", "reject-publish-dlx"),
        "is not a valid overflow value",
    ),
    "queue-leader-locator": (
        _one_of("client-local", "balanced", "random", "least-leaders"),
        "is not a valid queue leader locator value",
    ),
    "queue-master-locator": (
        _one_of("min-masters", "client-local", "random"),
        "invalid queue-master-locator value",
    ),
    "queue-mode": (_one_of("default", "lazy"), "is not a valid queue-mode value"),
    "queue-version": (_one_of(1, 2), "is not a valid queue-version value"),
    "stream-max-segment-size-bytes": (_integer(0), "is not a valid segment size"),
}


_ABSENT = object()
"""Placeholder of parameters that are not given; null counts as given."""


def _complain_all(parameters: Any) -> str | None:
    return None if parameters is _ABSENT else "does not take parameters"


def _complain_exactly(parameters: Any) -> str | None:
    if _is_integer(parameters, 1):
        return None
    return f"takes an integer, {_given(parameters)} given"


def _complain_nodes(parameters: Any) -> str | None:
    if not isinstance(parameters, list):
        return f"takes a list, {_given(parameters)} given"
    if not parameters:
        return "list must be non-empty"
    wrong = [value for value in parameters if not isinstance(value, str)]
    return f"takes a list of strings, {term(wrong)} was not a string" if wrong else None


def _given(parameters: Any) -> str:
    return "none" if parameters is _ABSENT else term(parameters)


_HA_PARAMETER_CHECKS: dict[str, Callable[[Any], str | None]] = {
    "all": _complain_all,
    "exactly": _complain_exactly,
    "nodes": _complain_nodes,
}


def _either(first: str, second: str) -> Callable[[str, Any], str | None]:
    def check(key: str, value: Any) -> str | None:
        if value in (first, second):
            return None
        return f'{key} must be "{first}" or "{second}", got {term(value)}'

    return check


def _complain_batch_size(key: str, value: Any) -> str | None:
    return None if _is_integer(value, 1) else f"{key} takes an integer greater than 0, {term(value)} given"


_HA_CHECKS: dict[str, Callable[[str, Any], str | None]] = {
    "ha-sync-mode": _either("manual", "automatic"),
    "ha-sync-batch-size": _complain_batch_size,
    "ha-promote-on-shutdown": _either("always", "when-synced"),
    "ha-promote-on-failure": _either("always", "when-synced"),
    "ha-orphans": _either("restore", "keep"),
    "ha-redeliver": _either("all", "lost"),
}
