"""Conversion of quorum queues in a definitions file into classic queues with mirrors.

A quorum queue replicates by its type, a classic queue by a policy. The conversion removes the arguments that
only quorum queues have. If no policy of the queue mirrors it, it adds one: the settings of the policy
that applies now, and `ha-mode: exactly` with the size of the quorum group.
"""

from __future__ import annotations

import re
from typing import Any

from mirrormq.metadata import commands as c
from mirrormq.metadata.policy_matching import PolicyMatcher
from mirrormq.metadata.records import Policy
from mirrormq.metadata.state import MetadataState

GROUP_SIZE = "x-quorum-initial-group-size"
GROUP_SIZE_DEFAULT = 3
"""Replicas of a quorum queue that names no number, in a cluster of three or more nodes."""

QUORUM_ONLY = (
    "x-queue-type",
    GROUP_SIZE,
    "x-delivery-limit",
    "x-dead-letter-strategy",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-queue-leader-locator",
)
"""Arguments without a meaning for a classic queue."""


class QuorumConversion:
    """Converted queues of one import, and the policies that mirror them."""

    def __init__(self, scratch: MetadataState) -> None:
        self._scratch = scratch
        self._policies = PolicyMatcher(scratch)
        self._names: dict[tuple[str, str, int], list[str]] = {}
        """Converted queues by vhost, policy that applied, and group size."""
        self._applied: dict[tuple[str, str, int], tuple[dict[str, Any], int | float]] = {}
        self.sentences: list[str] = []

    def convert(self, vhost: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of the classic queue, and plan its policy."""
        effective = self._policies.effective(vhost, name, "queues")
        left = {key: value for key, value in arguments.items() if key not in QUORUM_ONLY}
        dropped = sorted(key for key in arguments if key in QUORUM_ONLY[2:])
        note = f" without {', '.join(dropped)}" if dropped else ""
        self.sentences.append(f"queue '{name}' in vhost '{vhost}' becomes a mirrored queue{note}")
        if "ha-mode" not in effective.definition:
            size = arguments.get(GROUP_SIZE, GROUP_SIZE_DEFAULT)
            size = size if isinstance(size, int) and size > 0 else GROUP_SIZE_DEFAULT
            key = (vhost, effective.policy or "", size)
            self._names.setdefault(key, []).append(name)
            policy = self._scratch.policies.get((vhost, effective.policy or ""))
            self._applied[key] = ({}, 0) if policy is None else (policy.definition, policy.priority)
        return left

    @property
    def commands(self) -> list[c.Command]:
        """Policies that mirror the converted queues."""
        found: list[c.Command] = []
        for (vhost, applied, size), names in self._names.items():
            definition, priority = self._applied[vhost, applied, size]
            mirrored = {**definition, "ha-mode": "exactly", "ha-params": size, "ha-sync-mode": "automatic"}
            pattern = f"^({'|'.join(map(re.escape, names))})$"
            title = "-".join(part for part in ("converted-quorum", applied, str(size)) if part)
            found.append(c.PutPolicy(Policy(vhost, title, pattern, "queues", mirrored, priority + 1)))
        return found
