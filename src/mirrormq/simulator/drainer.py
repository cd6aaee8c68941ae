"""Clients that empty the queues at the end of a run."""

from __future__ import annotations

from mirrormq.simulator.workload import SimulatedConsumer

DRAIN_PREFETCH = 100
DRAIN_PACE_MS = 30


class Drainer(SimulatedConsumer):
    """Takes everything, and stays."""

    pace_ms = DRAIN_PACE_MS
    prefetch = DRAIN_PREFETCH

    @property
    def consumes(self) -> bool:
        """Return whether the drainer is subscribed to its queue."""
        return self.session is not None and self._ready

    def act(self) -> None:
        while self._held:
            self.acknowledge()
