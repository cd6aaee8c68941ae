"""Links that one incarnation of a node runs: follows the assignments in the metadata.

A link runs here while its record names this node, this incarnation and the epoch that its runner began with.
Any other record ends the runner. A changed definition or epoch ends the runner first and starts the next one
after its end, so that two runners of one link never overlap on a node. A link that has finished its work
starts no more until the metadata has forgotten its record: another start would move messages again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from mirrormq.bridges.federation_links import FederatedExchange
from mirrormq.bridges.link_kinds import LinkKind
from mirrormq.metadata.changes import Change
from mirrormq.metadata.link_records import Link as LinkRecord
from mirrormq.metadata.link_records import LinkKey
from mirrormq.metadata.records import Binding, GlobalParameter, Parameter, Policy
from mirrormq.metadata.state import MetadataState


class AssignedRunner(Protocol):
    """Runner of one link, from its start until it reports its end to `AssignedLinks.over`."""

    record: LinkRecord
    definition: Any

    def start(self) -> None:
        """Begin the first attempt."""

    def stop(self, *, removed: bool = False) -> None:
        """End the link in good order. `removed`: its definition is gone."""


Runner = TypeVar("Runner", bound=AssignedRunner)


class AssignedLinks(Generic[Runner]):
    """Runners of the links that are assigned to one incarnation of a node."""

    def __init__(
        self,
        state: MetadataState,
        holder: tuple[str, int],
        kinds: Mapping[str, LinkKind],
        make: Callable[[LinkRecord, LinkKind, Any], Runner],
    ) -> None:
        self._state = state
        self._holder = holder
        """Node and incarnation."""
        self._kinds = kinds
        self._make = make
        self.runners: dict[LinkKey, Runner] = {}
        self.finished: dict[LinkKey, Runner] = {}
        """Runners whose links have finished, while the metadata still has their records."""

    @staticmethod
    def concerns(change: Change) -> bool:
        """Return whether a change of the metadata may start or end a link."""
        return isinstance(change.record, LinkRecord | Parameter | Policy | GlobalParameter)

    def compare(self) -> None:
        """Compare the runners with the assignments: end and start what differs."""
        state = self._state
        mine = {
            key: record
            for key, record in state.links.items()
            if (record.node, record.incarnation) == self._holder and record.kind in self._kinds
        }
        for key, runner in list(self.runners.items()):
            definition = self._kinds[runner.record.kind].define(state, key)
            if mine.get(key) != runner.record or definition != runner.definition:
                runner.stop(removed=definition is None)
        for key, runner in list(self.finished.items()):
            if mine.get(key) != runner.record:
                del self.finished[key]
        for key, record in mine.items():
            if key in self.runners or key in self.finished:
                continue
            kind = self._kinds[record.kind]
            definition = kind.define(state, key)
            if definition is not None:
                self.runners[key] = runner = self._make(record, kind, definition)
                runner.start()

    def exchange_links(self, binding: Binding) -> list[Runner]:
        """Return the runners that pass a changed binding of their federated exchange on."""
        return [
            runner
            for runner in self.runners.values()
            if isinstance(runner.definition, FederatedExchange)
            and runner.definition.exchange.key == (binding.vhost, binding.source)
        ]

    def over(self, runner: Runner, finished: bool) -> None:
        """Forget a runner that has ended; `compare` may start the next one unless the link has finished."""
        key = runner.record.key
        if self.runners.get(key) is runner:
            del self.runners[key]
            if finished:
                self.finished[key] = runner
