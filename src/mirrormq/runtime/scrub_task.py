"""Background scrub of a node: passes over the sealed segments at a limited rate.

The journal is read on the loop in small pieces, like housekeeping. A pass begins some time after the node
has started, then every `scrub.interval_hours`, and when an operator requests one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.storage.journal_errors import JournalFailed

if TYPE_CHECKING:
    from mirrormq.runtime.application import Application

TICK_S = 0.1
IDLE_TICK_S = 1.0
"""Maximum delay of a pass that an operator has requested."""
FIRST_PASS_S = 3600.0
"""Delay of the first pass after the start, unless the interval is shorter: a starting node has other work."""


class ScrubTask:
    """Driver of the journal's scrubber by the clock of the loop."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._settings = application.settings
        self._budget_bytes = max(1, int(self._settings.scrub_rate_bytes_per_second * TICK_S))

    def start(self) -> None:
        """Schedule the first pass."""
        interval_s = self._settings.scrub_interval_hours * 3600.0
        if interval_s:
            self._application.later(min(interval_s, FIRST_PASS_S), self._begin_pass)
        self._application.later(IDLE_TICK_S, self._tick)

    def _begin_pass(self) -> None:
        self._application.journal.scrubber.start()
        self._application.later(self._settings.scrub_interval_hours * 3600.0, self._begin_pass)

    def _tick(self) -> None:
        application = self._application
        scrubber, damage = application.journal.scrubber, application.journal.damage
        running, known_damage = scrubber.progress.running, damage.found_total
        try:
            scrubber.step(self._budget_bytes)
        except JournalFailed as failure:
            application.node.die(failure)
            return
        if damage.found_total > known_damage or application.journal.dirty:
            application.end_turn_soon()
        if running and not scrubber.progress.running:
            self._report()
        application.later(TICK_S if scrubber.progress.running else IDLE_TICK_S, self._tick)

    def _report(self) -> None:
        progress, damage = self._application.journal.scrubber.progress, self._application.journal.damage
        text = (
            f"scrub of node {self._settings.name} finished: {progress.segments_done} segments, "
            f"{progress.bytes_done} bytes, {progress.damaged_spans} damaged spans, "
            f"{damage.pending_count} damaged messages without a good copy so far"
        )
        log = self._application.node.log
        if progress.damaged_spans:
            log.warning(text)
        else:
            log.info(text)
