"""Host of this node's links: gives runners to the links that `bridges.assigned_links` starts and ends."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from mirrormq.bridges.assigned_links import AssignedLinks
from mirrormq.bridges.federation_links import FederatedQueue
from mirrormq.bridges.link_kinds import kinds_of_node
from mirrormq.bridges.link_placement import STATIC_SHOVEL
from mirrormq.bridges.shovel_plan import ends_of
from mirrormq.bridges.static_shovels import shovel_definitions
from mirrormq.control.link_events import link_removed_event
from mirrormq.metadata.changes import Change
from mirrormq.metadata.commands import FinishLink
from mirrormq.metadata.records import Binding
from mirrormq.queues.queue import Queue
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
        self._links: AssignedLinks[LinkRunner] = AssignedLinks(
            application.metadata.state,
            (application.settings.name, application.incarnation),
            kinds_of_node(shovel_definitions(application.settings.static_shovels)),
            lambda record, kind, definition: LinkRunner(application, record, kind, definition, self._over),
        )
        self._queue_links: list[LinkRunner] = []
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
        for runner in list(self._links.runners.values()):
            if at_once:
                runner.drop()
            else:
                runner.stop()
        deadline = asyncio.get_running_loop().time() + STOP_TIMEOUT_S
        while self._links.runners and not at_once and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for runner in self._links.runners.values():
            runner.drop()
        self._links.runners.clear()

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each link that runs here, or has finished here and is not deleted yet."""
        me = self._application.settings.name
        return [
            {
                "node": me,
                "vhost": runner.record.vhost,
                "kind": runner.record.kind,
                "name": runner.record.name,
                "epoch": runner.record.epoch,
                **msgspec.structs.asdict(status),
                "eta_s": status.eta_s,
                **_static_ends(runner),
            }
            for runner in [*self._links.runners.values(), *self._links.finished.values()]
            for status in [runner.status()]
        ]

    # -- assignments ------------------------------------------------------------------------------

    def _follow(self, change: Change) -> None:
        record = change.record
        if AssignedLinks.concerns(change):
            self._compare_soon()
        elif isinstance(record, Binding):
            for runner in self._links.exchange_links(record):
                self._application.loop.call_soon(runner.propagate_bindings)

    def serve_demand(self) -> None:
        """Let queue links consume while their queues are empty and have consumers with room. Called at the
        end of a turn."""
        for runner in self._queue_links:
            definition = runner.definition
            vhost = self._application.broker.vhosts.get(definition.vhost)
            queue = vhost.local_queue(definition.name) if vhost is not None else None
            runner.consume(queue is not None and needs_messages(queue))

    def _compare_soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._application.loop.call_soon(self._compare)

    def _compare(self) -> None:
        """Compare the runners with the assignments."""
        self._scheduled = False
        if not self._running:
            return
        self._links.compare()
        self._note_queue_links()

    def _note_queue_links(self) -> None:
        self._queue_links = [
            runner for runner in self._links.runners.values() if isinstance(runner.definition, FederatedQueue)
        ]
        self._application.turns.at_end[:] = [self.serve_demand] if self._queue_links else []

    def _over(self, runner: LinkRunner, finished: bool) -> None:
        """Handle the end of a runner; the next one may begin."""
        record = runner.record
        self._links.over(runner, finished)
        self._note_queue_links()
        if self._running:
            removed = partial(link_removed_event, record, runner.definition)
            self._application.broker.events.link_changed(removed)
        if finished:
            # Also while the application stops: the next node would start the shovel again.
            metadata = self._application.metadata
            with metadata.acting_as(FINISHED_BY):
                metadata.write(FinishLink(record.vhost, record.kind, record.name, record.epoch))
        elif self._running:
            self._compare_soon()


def _static_ends(runner: LinkRunner) -> dict[str, Any]:
    """Return the ends of a static shovel: a node may be asked that does not have its definition."""
    return {"ends": ends_of(runner.definition)} if runner.record.kind == STATIC_SHOVEL else {}


def needs_messages(queue: Queue) -> bool:
    """Return whether a federated queue is empty and has an ordinary consumer with room.

    Consumers of other links have a negative priority: messages do not run through a queue to the next one.
    """
    if queue.backing.ready_count:
        return False
    return any(consumer.priority >= 0 and consumer.room() > 0 for consumer in queue.consumers.all)
