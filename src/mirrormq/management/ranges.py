"""Questions about the past in a request: `msg_rates_age=60&msg_rates_incr=5` and their like."""

from __future__ import annotations

from typing import NamedTuple

from mirrormq.management.answers import bad_request
from mirrormq.management.history import Range

STEPS_MAX = 500
"""In one answer, for each number of each object; RabbitMQ's."""


class Ranges(NamedTuple):
    """What a request would like to see the history of."""

    msg_rates: Range | None = None
    lengths: Range | None = None
    data_rates: Range | None = None
    node_stats: Range | None = None


NONE = Ranges()


def read(query: dict[str, str]) -> Ranges:
    """The ranges of a query; what is not two whole numbers is passed over, as in RabbitMQ."""
    if not any(name.endswith("_age") for name in query):
        return NONE
    return Ranges(*[_range(query, name) for name in Ranges._fields])


def _range(query: dict[str, str], name: str) -> Range | None:
    try:
        age, step = int(query[f"{name}_age"]), int(query[f"{name}_incr"])
    except (KeyError, ValueError):
        return None
    if age <= 0 or step <= 0 or age // step > STEPS_MAX:
        raise bad_request(f"Invalid range parameters: age {age}, incr {step}")
    return Range(age, step)
