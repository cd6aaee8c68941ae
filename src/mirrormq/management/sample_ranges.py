"""Requested sample histories in a query: `msg_rates_age=60&msg_rates_incr=5` and similar parameters."""

from __future__ import annotations

from typing import NamedTuple

from mirrormq.management.http_errors import bad_request
from mirrormq.management.sample_history import SampleRange

STEPS_MAX = 500
"""Largest number of samples per number and object in one reply, as in RabbitMQ."""


class SampleRanges(NamedTuple):
    """Histories that a request asks for."""

    msg_rates: SampleRange | None = None
    lengths: SampleRange | None = None
    data_rates: SampleRange | None = None
    node_stats: SampleRange | None = None


NONE = SampleRanges()


def read(query: dict[str, str]) -> SampleRanges:
    """Parse the ranges of a query; as in RabbitMQ, parameters that are not integers are ignored."""
    if not any(name.endswith("_age") for name in query):
        return NONE
    return SampleRanges(*[_range(query, name) for name in SampleRanges._fields])


def _range(query: dict[str, str], name: str) -> SampleRange | None:
    try:
        age, step = int(query[f"{name}_age"]), int(query[f"{name}_incr"])
    except (KeyError, ValueError):
        return None
    if age <= 0 or step <= 0 or age // step > STEPS_MAX:
        raise bad_request(f"Invalid range parameters: age {age}, incr {step}")
    return SampleRange(age, step)
