"""Simulated operator: after the faults, restores the policy and merges sides that continued separately.

Where the mode heals without an operator (`autoheal`) there is nothing to do. With `ignore` the operator
decides which side gives up: it reads the partitions that nodes report, keeps the largest side, and restarts
all other nodes, in good order or with a kill. All nodes of a side are stopped before any of them is started,
as RabbitMQ's operators do it.
"""

from __future__ import annotations

from typing import Any, Protocol

from mirrormq.metadata.state import MetadataState
from mirrormq.simulator.fault_injector import POLICY, FaultInjector
from mirrormq.simulator.membership_churn import ChurnHost
from mirrormq.simulator.simulated_node import SimulatedNode

MERGE_AFTER_MS = 4000
"""Time in which nodes find each other again without the operator, if they can."""

POLICY_MS = 1000
"""Interval between repeated writes of a policy that is not in force."""


class OperatorHost(ChurnHost, Protocol):
    """Environment of the operator."""

    names: list[str]
    fault_injector: FaultInjector

    def policy(self, dice: int) -> dict[str, Any]:
        """Return one of the policies of the run; 0 for the right one."""


class Operator:
    """Operator of one run."""

    def __init__(self, premises: OperatorHost) -> None:
        self._premises = premises
        self._stopped: list[SimulatedNode] = []
        self._attempts = 0
        self._apart_since_ms: int | None = None
        self._wrote_ms: int | None = None

    def is_content(self) -> bool:
        """Return whether no partition is left and the policy is right."""
        return not self._stopped and not self._apart() and self._policies_are_right()

    def act(self) -> None:
        """Check the cluster and act; called periodically."""
        now = self._premises.timeline.now_ms
        if not self._policies_are_right() and (self._wrote_ms is None or now - self._wrote_ms > POLICY_MS):
            self._wrote_ms = now
            self._premises.fault_injector.set_policy(self._premises.policy(0))
        if self._stopped:
            self._start_again()
        elif not self._apart() or self._premises.handling.heals(self._premises.names):
            self._apart_since_ms = None
        elif self._apart_since_ms is None:
            self._apart_since_ms = now
        elif now - self._apart_since_ms >= MERGE_AFTER_MS:
            self._restart_losers()

    def _apart(self) -> list[str]:
        """Return the nodes outside the largest side: the partitions of the node that reports the fewest. If
        that has not helped (with `pause_if_all_down` the rest may pause meanwhile), those of the next
        node."""
        running = [node.controller.partitions for node in self._premises.nodes.values() if node.running]
        found = sorted(filter(None, running), key=len)
        return found[self._attempts % len(found)] if found else []

    def _policies_are_right(self) -> bool:
        right = self._premises.policy(0)
        return all(_is_right(node.member.metadata.state, right) for node in self._premises.nodes.values())

    def _restart_losers(self) -> None:
        self._apart_since_ms = None
        self._stopped = [self._premises.nodes[name] for name in self._apart()]
        self._attempts += 1
        self._premises.note(f"the operator restarts {' '.join(node.name for node in self._stopped)}")
        killed = self._premises.timeline.now_ms % 2
        for node in self._stopped:
            if killed and node.running:
                node.die(power=False)
            elif node.running:
                node.controller.want(False)
                node.mark_dirty()

    def _start_again(self) -> None:
        """Start the stopped nodes as soon as all of them have stopped."""
        if any(node.running and node.controller.serving.running for node in self._stopped):
            return
        for node in self._stopped:
            if node.running:
                node.controller.want(True)
                node.mark_dirty()
            else:
                self._premises.fault_injector.start(node.name)
        self._stopped = []


def _is_right(state: MetadataState, definition: dict[str, Any]) -> bool:
    policy = state.policies.get(("/", POLICY))  # None on a node that left and has not caught up again
    return policy is not None and policy.definition == definition
