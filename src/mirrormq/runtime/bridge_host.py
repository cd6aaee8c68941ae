"""Host of this node's links: starts and stops runners as the assignments in the metadata demand.

A link runs here while its record names this node, this incarnation and the epoch that the runner began with.
Any other record ends the runner. A changed definition or epoch ends the runner first and starts the next one
after its end, so that two runners of one link never overlap on a node.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from mirrormq.bridges.link_kinds import KINDS
from mirrormq.bridges.link_placement import SHOVEL
from mirrormq.metadata.changes import Change
from mirrormq.metadata.commands import FinishLink
from mirrormq.metadata.link_records import Link as LinkRecord
from mirrormq.metadata.link_records import LinkKey
from mirrormq.metadata.records import Parameter
from mirrormq.runtime.link_runner import LinkRunner

if TYPE_CHECKING:
    from mirrormq.runtime.application import Application

STOP_TIMEOUT_S = 3.5
"""Time that a stopping application gives its links: the link's own limit, and a little more."""

FINISHED_BY = "rmq-shovel"
"""Acting user of the deletion of a finished shovel, as in RabbitMQ."""


class BridgeHost:
    """Links of one application."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._runners: dict[LinkKey, LinkRunner] = {}
        self._scheduled = False
        self._running = False

    def start(self) -> None:
        """Run the assigned links, and follow the metadata from now on."""
        self._running = True
        self._application.metadata.listeners.append(self._follow)
        self._compare_soon()

    async def stop(self, *, at_once: bool) -> None:
        """End all links; with `at_once` without waiting for confirms."""
        if not self._running:
            return
        self._running = False
        self._application.metadata.listeners.remove(self._follow)
        for runner in list(self._runners.values()):
            if at_once:
                runner.drop()
            else:
                runner.stop()
        deadline = asyncio.get_running_loop().time() + STOP_TIMEOUT_S
        while self._runners and not at_once and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for runner in self._runners.values():
            runner.drop()
        self._runners.clear()

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each link that runs here."""
        me = self._application.settings.name
        return [
            {
                "node": me,
                "vhost": runner.record.vhost,
                "kind": runner.record.kind,
                "name": runner.record.name,
                "epoch": runner.record.epoch,
                **msgspec.structs.asdict(runner.status()),
            }
            for runner in self._runners.values()
        ]

    # -- assignments ------------------------------------------------------------------------------

    def _follow(self, change: Change) -> None:
        if isinstance(change.record, LinkRecord | Parameter):
            self._compare_soon()

    def _compare_soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._application.loop.call_soon(self._compare)

    def _compare(self) -> None:
        """Compare the runners with the assignments."""
        self._scheduled = False
        if not self._running:
            return
        application = self._application
        state, me = application.metadata.state, application.settings.name
        mine = {
            key: record
            for key, record in state.links.items()
            if record.node == me and record.incarnation == application.incarnation
        }
        for key, runner in list(self._runners.items()):
            kept = mine.get(key)
            if kept != runner.record or KINDS[runner.record.kind].define(state, key) != runner.definition:
                runner.stop()
        for key, record in mine.items():
            kind = KINDS.get(record.kind)
            definition = kind.define(state, key) if kind is not None else None
            if key not in self._runners and kind is not None and definition is not None:
                runner = LinkRunner(application, record, kind, definition, self._over)
                self._runners[key] = runner
                runner.start()

    def _over(self, runner: LinkRunner, finished: bool) -> None:
        """Handle the end of a runner; the next one may begin."""
        record = runner.record
        if self._runners.get(record.key) is runner:
            del self._runners[record.key]
        if not self._running:
            return
        if finished and record.kind == SHOVEL:
            metadata = self._application.metadata
            with metadata.acting_as(FINISHED_BY):
                metadata.write(FinishLink(record.vhost, record.kind, record.name, record.epoch))
        else:
            self._compare_soon()
