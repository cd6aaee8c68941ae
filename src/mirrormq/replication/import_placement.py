"""Queue placement of a definitions import: as if a client of this node declared one queue after the other."""

from __future__ import annotations

from collections import Counter

import msgspec

from mirrormq.metadata import commands as c
from mirrormq.metadata.policy_matching import PolicyMatcher
from mirrormq.metadata.records import Queue
from mirrormq.metadata.state import MetadataState
from mirrormq.replication import initial_placement
from mirrormq.replication.placement import Choose
from mirrormq.replication.replication_host import PlacementSettings
from mirrormq.wire.fields import Table


class ImportPlacement:
    """Placement with existing and imported policies, and with a count of masters."""

    def __init__(
        self, state: MetadataState, scratch: MetadataState, settings: PlacementSettings, choose: Choose
    ) -> None:
        self._state = state
        self._settings = settings
        self._scratch = scratch
        self._choose = choose
        for policy in state.policies.values():
            scratch.apply(c.PutPolicy(policy))
        for limits in state.operator_policies.values():
            scratch.apply(c.PutOperatorPolicy(limits))
        self._policies = PolicyMatcher(scratch)
        self._masters = Counter(queue.node for queue in state.queues.values())

    def heed(self, command: c.Command) -> None:
        """Record a policy of the file."""
        if isinstance(command, c.PutPolicy | c.PutOperatorPolicy):
            self._scratch.apply(command)

    def placed(self, queue: Queue, arguments: Table) -> Queue:
        """Return a queue with its master and mirrors. An existing queue stays where it is."""
        settings = self._settings
        if queue.key in self._state.queues:
            return msgspec.structs.replace(queue, node=settings.name)
        definition = self._policies.effective(queue.vhost, queue.name, "queues").definition
        locator = initial_placement.locator(arguments, definition, settings.queue_master_locator)
        placed_queue = initial_placement.place(
            queue, locator, definition, settings.name, self._state.nodes, self._masters, self._choose
        )
        self._masters[placed_queue.node] += 1
        return placed_queue
