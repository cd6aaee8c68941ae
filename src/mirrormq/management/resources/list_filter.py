"""Resource: preview of the objects that a policy pattern matches; the page shows it while the user types.

The preview uses the same matching code as policies, so that both always agree.
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
"""Largest number of names in the reply; the total number is included."""

SLICE_S = 0.002
"""Time of matching between two turns of the loop; one match of an expensive pattern may take ten times as
long."""

WORK_S_MAX = 0.5
"""Time after which matching stops; the member `complete` of the reply is then false."""

KINDS: dict[str, tuple[Kind, ...]] = {
    "all": ("queues", "exchanges"),
    "queues": ("queues",),
    "classic_queues": ("queues",),
    "exchanges": ("exchanges",),
}


async def matching(call: ApiRequest) -> dict[str, Any]:
    """Return the queues and exchanges that match a pattern, and whether the policy would apply to each."""
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
    """Time budget of the matching, spent in slices."""

    def __init__(self) -> None:
        self.spent = False
        self._worked_s = 0.0
        self._began_s = time.perf_counter()

    async def left(self) -> bool:
        """Report whether time is left; yield to the event loop after each slice."""
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
