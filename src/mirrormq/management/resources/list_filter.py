"""What a policy would govern before it is written: the page shows it while a pattern is being typed.

The patterns are matched by the same code that will match them later, so the preview cannot be wrong.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from mirrormq.auth import patterns
from mirrormq.management import access
from mirrormq.management.api_request import ApiRequest, integer
from mirrormq.management.http_errors import bad_request
from mirrormq.management.route_table import ApiRoute
from mirrormq.metadata.policy_matching import Kind, governs
from mirrormq.metadata.records import Policy

NAMES_SHOWN_MAX = 100
"""A reader looks at the first few; the number of all is told too."""

SLICE_S = 0.002
"""Matching between two turns of the loop; one match of a wild pattern may take ten times as long."""

WORK_S_MAX = 0.5
"""A pattern that runs wild is given up; `complete` says so."""

KINDS: dict[str, tuple[Kind, ...]] = {
    "all": ("queues", "exchanges"),
    "queues": ("queues",),
    "classic_queues": ("queues",),
    "exchanges": ("exchanges",),
}


async def matching(call: ApiRequest) -> dict[str, Any]:
    """Queues and exchanges whose names a pattern matches, and whether another policy keeps them."""
    pattern, apply_to = call.query.get("pattern", ""), call.query.get("apply-to", "all")
    if apply_to not in KINDS:
        raise bad_request(f"apply-to must be one of {', '.join(KINDS)}")
    try:
        patterns.check(pattern)
    except patterns.PatternInvalid as error:
        raise bad_request(f"{error.text} at position {error.position}") from None
    priority = integer(call.query.get("priority", "0"))
    policy = Policy(call.vhost, call.query.get("name", ""), pattern, apply_to, {}, priority)
    names: dict[Kind, list[str]] = {
        "queues": list(call.state.queues_of(call.vhost)),
        "exchanges": [name for name in call.state.exchanges_of(call.vhost) if name],
    }
    budget = _Budget()
    shown: dict[str, Any] = {}
    for kind in KINDS[apply_to]:
        found = [name for name in names[kind] if await budget.left() and patterns.matches(pattern, name)]
        shown[kind] = {"total": len(found), "items": _items(call, policy, sorted(found), kind)}
    return {**shown, "complete": not budget.spent}


class _Budget:
    """Time to match in: given in slices, and not for ever."""

    def __init__(self) -> None:
        self.spent = False
        self._worked_s = 0.0
        self._began_s = time.perf_counter()

    async def left(self) -> bool:
        """Is there some? Lets others work in between."""
        passed_s = time.perf_counter() - self._began_s
        if passed_s > SLICE_S and not self.spent:
            self._worked_s += passed_s
            self.spent = self._worked_s > WORK_S_MAX
            await asyncio.sleep(0)
            self._began_s = time.perf_counter()
        return not self.spent


def _items(call: ApiRequest, policy: Policy, names: list[str], kind: Kind) -> list[dict[str, Any]]:
    kept = call.state.policies.values()
    others = [each for each in kept if each.vhost == policy.vhost and each.name != policy.name]
    first = names[:NAMES_SHOWN_MAX]
    return [{"name": name, "governed": governs(policy, others, name, kind)} for name in first]


ROUTES = [ApiRoute("mirrormq/matching/{vhost}", access.vhost, {"GET": matching})]
