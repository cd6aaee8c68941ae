"""Questions about the past in a request: `msg_rates_age=60&msg_rates_incr=5` and their like."""

from __future__ import annotations

from typing import NamedTuple

from mirrormq.management.http_errors import bad_request
from mirrormq.management.sample_history import SampleRange

STEPS_MAX = 500
"""In one answer, for each number of each object; RabbitMQ's."""


class SampleRanges(NamedTuple):
    """What a request would like to see the history of."""

    msg_rates: SampleRange | None = None
    lengths: SampleRange | None = None
    data_rates: SampleRange | None = None
    node_stats: SampleRange | None = None


NONE = SampleRanges()


def read(query: dict[str, str]) -> SampleRanges:
    """The ranges of a query; what is not two whole numbers is passed over, as in RabbitMQ."""
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
