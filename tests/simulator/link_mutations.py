"""Mutations of what links promise, and the runs that need it, for test_mutations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from mirrormq.bridges import federation_exchange, link_kinds
from mirrormq.bridges.assigned_links import AssignedLinks
from mirrormq.bridges.federation_exchange import ExchangeLink
from mirrormq.bridges.link_placement import LinkPlacement
from mirrormq.bridges.link_plan import AckMode, LinkPlan, Outgoing, Setup
from mirrormq.bridges.shovel_plan import plan_of
from mirrormq.bridges.transfer import Transfer
from mirrormq.client.client_channel import ClientChannel
from mirrormq.client.client_events import Delivery
from mirrormq.metadata import commands as c
from mirrormq.metadata import state as metadata_state
from mirrormq.metadata.link_records import LinkChange
from mirrormq.metadata.state import MetadataState
from mirrormq.simulator.simulated_federation import SimulatedFederation
from mirrormq.simulator.simulated_links import SimulatedShovel
from mirrormq.simulator.world import SimulationOptions
from mirrormq.wire import methods
from tests.simulator.mutation_runs import Planned, run


def with_links(seed: int, mode: str, break_permille: int, *faults: Planned) -> SimulationOptions:
    """Return a run with a link inside its node, and one with a remote destination."""
    shovels = (SimulatedShovel(mode, "m80", "m90", "", "abc"[seed % 3]), SimulatedShovel(mode, "u81", "m91"))
    return run(seed, *faults)._replace(shovels=shovels, break_permille=break_permille)


def federation_restarts(seed: int) -> SimulationOptions:
    """Break and restart links of exchange and queue federation, while bindings change."""
    federations = (
        SimulatedFederation("on-confirm", "exchange", "m950", "abc"[seed % 3]),
        SimulatedFederation("on-confirm", "queue", "m951", "abc"[(seed + 1) % 3]),
    )
    return run(seed)._replace(federations=federations, break_permille=20)


def links_break(seed: int) -> SimulationOptions:
    """Break the connections of links between any two octets."""
    return with_links(seed, "on-confirm", 60)


def nodes_of_links_die(seed: int) -> SimulationOptions:
    """Kill each node once: its links begin again on another one."""
    deaths: list[Planned] = [("kill", 900 * at, 900 * at + 700, name, 0) for at, name in enumerate("abc", 1)]
    return with_links(seed, "on-confirm", 0, *deaths)


def links_restart(seed: int) -> SimulationOptions:
    """Let an operator restart the links, which begins another epoch on the same node."""
    return with_links(seed, "on-confirm", 1)


def nothing_breaks(seed: int) -> SimulationOptions:
    """Run links without acknowledgements and without faults."""
    return with_links(seed, "no-ack", 0)


def acknowledge_before_the_confirm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the source forget a message when it is published."""

    def hasty(*arguments: Any) -> LinkPlan:
        return replace(plan_of(*arguments), ack_mode=AckMode.ON_PUBLISH)

    monkeypatch.setattr(link_kinds, "plan_of", hasty)


def assign_within_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a link to the next node without another epoch."""
    work = LinkPlacement.work

    def first_epoch(self: LinkPlacement) -> list[c.AssignLinks]:
        found = []
        for command in work(self):
            changes = [LinkChange(msgspec.structs.replace(each.record, epoch=1)) for each in command.changes]
            found.append(msgspec.structs.replace(command, changes=changes))
        return found

    def gullible(state: MetadataState, command: c.AssignLinks) -> None:
        for change in command.changes:
            state.store(change.record)

    monkeypatch.setattr(LinkPlacement, "work", first_epoch)
    monkeypatch.setitem(metadata_state._APPLY, c.AssignLinks, gullible)


def start_beside_the_former_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the runner of the next epoch without ending the former one."""
    compare = AssignedLinks.compare

    def careless(self: AssignedLinks[Any]) -> None:
        for key, runner in list(self.runners.items()):
            if self._state.links.get(key) != runner.record:
                del self.runners[key]
        compare(self)

    monkeypatch.setattr(AssignedLinks, "compare", careless)


def publish_the_latest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish deliveries that wait in the wrong order."""
    delivered = Transfer.delivered

    def reversing(self: Transfer, deliveries: list[Delivery]) -> None:
        delivered(self, deliveries)
        self._pending.rotate(1)

    monkeypatch.setattr(Transfer, "delivered", reversing)


def publish_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish some messages twice."""
    write, count = Transfer._write, 0

    def repeating(self: Transfer, outgoing: Outgoing) -> None:
        nonlocal count
        count += 1
        write(self, outgoing)
        if count % 5 == 0:
            write(self, outgoing)

    monkeypatch.setattr(Transfer, "_write", repeating)


def drop_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget some deliveries."""
    delivered, count = Transfer.delivered, 0

    def forgetful(self: Transfer, deliveries: list[Delivery]) -> None:
        nonlocal count
        count += 1
        delivered(self, deliveries if count % 8 else deliveries[1:])

    monkeypatch.setattr(Transfer, "delivered", forgetful)


def delete_the_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete the internal queue whenever an exchange link ends, as RabbitMQ does."""

    def closing(self: ExchangeLink, channel: ClientChannel) -> None:
        channel.request(methods.encode_queue_delete(self._queue))

    monkeypatch.setattr(ExchangeLink, "closing", closing)


def bind_the_same_internal_exchange_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a link that begins again keep the internal exchange with its former bindings."""

    def unknown(exchange: str) -> Setup[bool]:
        yield from ()
        return False

    monkeypatch.setattr(federation_exchange, "_exists", unknown)


LINK_MUTATIONS: Sequence[
    tuple[Callable[[pytest.MonkeyPatch], None], Callable[[int], SimulationOptions], str]
] = (
    (acknowledge_before_the_confirm, links_break, "ConfirmedIsKept"),
    (assign_within_the_epoch, nodes_of_links_die, "OneRunner"),
    (start_beside_the_former_runner, links_restart, "OneRunner"),
    (publish_the_latest_first, links_break, "LinksKeepOrder"),
    (publish_twice, nothing_breaks, "LinksRepeatOnlyWhatComesAgain"),
    (drop_some, nothing_breaks, "LinksLoseOnlyByBreaks"),
    (delete_the_backlog, federation_restarts, "ConfirmedIsKept"),
    (bind_the_same_internal_exchange_again, federation_restarts, "EverythingSettles"),
)
"""Mutation, the runs in which it matters, and the checker that finds it."""
