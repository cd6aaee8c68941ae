"""What an audit found: numbers and short tables, and the sentences they amount to."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

Row = dict[str, Any]
"""One row of a short table, by the names of its columns."""


@dataclass(frozen=True)
class AuditProblem:
    """One thing to know. A serious one fails the audit."""

    name: str
    serious: bool
    count: int
    title: str
    explanation: str


@dataclass
class Findings:
    """Everything the report shows. The tables are cut to limits; the totals are of everything."""

    history: str
    start_ns: int
    end_ns: int
    slice_ns: int
    runs: int
    kinds: dict[str, int]
    """Rows of each kind."""
    totals: dict[str, int] = field(default_factory=dict)
    """The classes over all messages, and the numbers of inversions, split epochs and divergences."""
    queues: list[Row] = field(default_factory=list)
    examples: dict[str, list[Row]] = field(default_factory=dict)
    faults: list[Row] = field(default_factory=list)
    lost_by_fault: list[Row] = field(default_factory=list)
    lost_by_epoch: list[Row] = field(default_factory=list)
    lost_over_time: list[Row] = field(default_factory=list)
    epochs: list[Row] = field(default_factory=list)
    split_epochs: list[Row] = field(default_factory=list)
    divergences: list[Row] = field(default_factory=list)
    replicas: list[Row] = field(default_factory=list)
    inversions: list[Row] = field(default_factory=list)
    rates: list[Row] = field(default_factory=list)
    silences: list[Row] = field(default_factory=list)
    cluster_silences: list[Row] = field(default_factory=list)
    latencies: list[Row] = field(default_factory=list)
    """Per measure: messages, percentiles and the maximum."""
    latencies_over_time: list[Row] = field(default_factory=list)
    latency_buckets: list[Row] = field(default_factory=list)
    interruptions: list[Row] = field(default_factory=list)
    """Per node: connections lost and consumers cancelled."""
    not_drained: list[Row] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Rows in the history."""
        return sum(self.kinds.values())

    @property
    def problems(self) -> list[AuditProblem]:
        """What there is to know, the serious things first."""
        found = [*_serious(self), *_notes(self)]
        return [problem for problem in found if problem.count]

    @property
    def passed(self) -> bool:
        """Whether nothing serious was found."""
        return not any(problem.serious for problem in self.problems)

    @property
    def verdict(self) -> str:
        """The whole audit in one sentence."""
        if self.passed and not self.totals["confirmed"]:
            return "Nothing serious was found, but nothing was confirmed either"
        if self.passed:
            return f"Nothing confirmed was lost: {self.totals['confirmed']:,} confirmed messages came out"
        first, *others = [problem.title for problem in self.problems if problem.serious]
        return (
            f"{first}, and {_plural(len(others), 'other thing', 'other things')} went wrong"
            if others
            else first
        )

    def as_dict(self) -> Row:
        """For JSON."""
        told = [asdict(problem) for problem in self.problems]
        return {"passed": self.passed, "verdict": self.verdict, "problems": told, **asdict(self)}


def _plural(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _serious(found: Findings) -> list[AuditProblem]:
    totals = found.totals

    def problem(name: str, one: str, many: str, explanation: str) -> AuditProblem:
        count = totals[name]
        return AuditProblem(name, True, count, _plural(count, one, many), explanation)

    return [
        AuditProblem("nothing", True, int(totals["attempted"] == 0), "The history has no publishes",
                "Nothing was attempted, so nothing was proven."),
        problem("lost", "confirmed message was lost", "confirmed messages were lost",
                "The publisher had its confirm, and the message never came out of the queue."),
        problem("unexpected", "message came out that nobody put in", "messages came out that nobody put in",
                "Delivered, but never attempted in that queue."),
        problem("unflagged", "redelivery had no flag", "redeliveries had no flag",
                "A message came again with redelivered = false, so a consumer cannot know it for a copy."),
        problem("split", "epoch had two masters that confirmed", "epochs had two masters that confirmed",
                "Two nodes confirmed messages of one queue as its master in the same epoch: split brain."),
        problem("claimed", "epoch had two masters", "epochs had two masters",
                "Two nodes said to be master of one queue in the same epoch, though only one confirmed."),
        problem("divergences", "place where replicas differ", "places where replicas differ",
                "Replicas of one queue have different contents at the same epoch and sequence."),
        problem("inversions", "message overtook another", "messages overtook others",
                "Delivered after a later message of the same publisher, queue and consumer, unflagged."),
    ]  # fmt: skip


def _notes(found: Findings) -> list[AuditProblem]:
    totals = found.totals

    def note(name: str, count: int, one: str, many: str, explanation: str) -> AuditProblem:
        return AuditProblem(name, False, count, _plural(count, one, many), explanation)

    unended = sum(1 for fault in found.faults if fault["end_ns"] is None)
    return [
        note("not_drained", len(found.not_drained), "queue was not drained", "queues were not drained",
             "Nothing says that it was emptied in the end: what counts as lost may still be in it."),
        note("duplicated", totals["duplicated"], "delivery was a repetition", "deliveries were repetitions",
             "The message came more often than it was sent: allowed after failures, if it is flagged."),
        note("recovered", totals["recovered"], "message came out without a confirm",
             "messages came out without a confirm",
             "The publisher never had its confirm, or had a nack, and the message was kept all the same."),
        note("came_back", totals["came_back"], "acknowledged message came back",
             "acknowledged messages came back",
             "Delivered again after its acknowledgement was sent: the acknowledgement got lost."),
        note("unknown", totals["unknown"], "publish got no answer", "publishes got no answer",
             "Neither confirm nor nack: the connection ended first."),
        note("nacked", totals["nacked"], "publish was refused", "publishes were refused",
             "The broker answered with basic.nack."),
        note("returned", totals["returned"], "message was returned", "messages were returned",
             "No queue was bound for it; its confirm promises nothing."),
        note("unended", unended, "fault never ended", "faults never ended",
             "It is taken to last until the end of the history."),
    ]  # fmt: skip
