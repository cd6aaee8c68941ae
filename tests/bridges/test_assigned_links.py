"""Links that one node runs: which runners start and end with the metadata."""

from __future__ import annotations

from typing import Any

from mirrormq.bridges.assigned_links import AssignedLinks
from mirrormq.bridges.link_kinds import KINDS
from mirrormq.metadata import commands as c
from mirrormq.metadata.link_records import Link, LinkChange
from mirrormq.metadata.records import Node, Parameter, Vhost
from mirrormq.metadata.state import MetadataState

VALUE = {"src-uri": "amqp://", "src-queue": "from", "dest-uri": "amqp://", "dest-queue": "to"}
KEY = ("/", "shovel", "s")


class Runner:
    """Runner that notes its start, and ends when the test says so."""

    def __init__(self, record: Link, definition: Any) -> None:
        self.record = record
        self.definition = definition
        self.started = False
        self.stopped = False

    def start(self) -> None:
        self.started = True

    def stop(self, *, removed: bool = False) -> None:
        self.stopped = True


class AssignedShovel:
    """Node `a` to which one shovel is assigned."""

    def __init__(self) -> None:
        self.state = MetadataState()
        self.begun: list[Runner] = []
        self.apply(c.PutVhost(Vhost("/")))
        self.apply(c.PutNode(Node("a", incarnation=1, running=True)))
        self.apply(c.PutParameter(Parameter(*KEY, VALUE)))
        self.links: AssignedLinks[Runner] = AssignedLinks(self.state, ("a", 1), KINDS, self._make)
        self.assign(1)

    def _make(self, record: Link, _kind: Any, definition: Any) -> Runner:
        self.begun.append(Runner(record, definition))
        return self.begun[-1]

    def apply(self, command: c.Command) -> None:
        self.state.apply(command)

    def assign(self, epoch: int) -> None:
        self.apply(c.AssignLinks([LinkChange(Link(*KEY, "a", 1, epoch))]))
        self.links.compare()


def test_a_finished_link_starts_no_more_before_the_metadata_has_forgotten_it() -> None:
    shovel = AssignedShovel()
    [runner] = shovel.begun
    shovel.links.over(runner, finished=True)
    shovel.apply(c.PutParameter(Parameter("/", "shovel", "other", VALUE)))
    shovel.links.compare()
    assert shovel.begun == [runner]
    assert list(shovel.links.finished.values()) == [runner]
    shovel.apply(c.FinishLink(*KEY, 1))
    shovel.links.compare()
    assert shovel.begun == [runner] and not shovel.links.finished
    shovel.apply(c.PutParameter(Parameter(*KEY, VALUE)))
    shovel.assign(1)
    assert len(shovel.begun) == 2, "a new shovel of the same name"


def test_an_operator_restarts_a_finished_link_before_the_metadata_has_forgotten_it() -> None:
    shovel = AssignedShovel()
    [runner] = shovel.begun
    shovel.links.over(runner, finished=True)
    shovel.apply(c.RestartLink(*KEY))
    shovel.apply(c.FinishLink(*KEY, 1))
    shovel.links.compare()
    assert [each.record.epoch for each in shovel.begun] == [1, 2]
    assert not shovel.links.finished


def test_an_unfinished_link_starts_again_after_its_end() -> None:
    shovel = AssignedShovel()
    shovel.links.over(shovel.begun[0], finished=False)
    shovel.links.compare()
    assert len(shovel.begun) == 2
