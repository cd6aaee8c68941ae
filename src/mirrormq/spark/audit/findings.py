"""Findings of an audit: numbers, short tables, and their summary sentences."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

Row = dict[str, Any]
"""Row of a short table, by column names."""


@dataclass(frozen=True)
class AuditProblem:
    """Problem found by an audit. A serious one fails the audit."""

    name: str
    serious: bool
    count: int
    title: str
    explanation: str


@dataclass
class Findings:
    """Contents of the report. Tables are cut to limits; totals count everything."""

    history: str
    start_ns: int
    end_ns: int
    slice_ns: int
    runs: int
    kinds: dict[str, int]
    """Rows of each kind."""
    totals: dict[str, int] = field(default_factory=dict)
    """Classes over all messages, and the numbers of inversions, split epochs and divergences."""
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
    """Messages, percentiles and maximum per measure."""
    latencies_over_time: list[Row] = field(default_factory=list)
    latency_buckets: list[Row] = field(default_factory=list)
    interruptions: list[Row] = field(default_factory=list)
    """Lost connections and cancelled consumers per node."""
    not_drained: list[Row] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Number of rows in the history."""
        return sum(self.kinds.values())

    @property
    def problems(self) -> list[AuditProblem]:
        """Problems and notes, the serious ones first."""
        found = [*_serious(self), *_notes(self)]
        return [problem for problem in found if problem.count]

    @property
    def passed(self) -> bool:
        """Whether no serious problem was found."""
        return not any(problem.serious for problem in self.problems)

    @property
    def verdict(self) -> str:
        """Summary of the audit in one sentence."""
        if self.passed and not self.totals["confirmed"]:
            return "No serious problem was found, but no message was confirmed"
        if self.passed:
            return f"No confirmed message was lost: {self.totals['confirmed']:,} were confirmed and delivered"
        first, *others = [problem.title for problem in self.problems if problem.serious]
        return f"{first}, and {_plural(len(others), 'other problem', 'other problems')}" if others else first

    def as_dict(self) -> Row:
        """Return the findings for JSON."""
        problems = [asdict(problem) for problem in self.problems]
        return {"passed": self.passed, "verdict": self.verdict, "problems": problems, **asdict(self)}


def _plural(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _serious(found: Findings) -> list[AuditProblem]:
    totals = found.totals

    def problem(name: str, one: str, many: str, explanation: str) -> AuditProblem:
        count = totals[name]
        return AuditProblem(name, True, count, _plural(count, one, many), explanation)

    return [
        AuditProblem("nothing", True, int(totals["attempted"] == 0), "The history has no publishes",
                "Without publishes the audit proves nothing."),
        problem("lost", "confirmed message was lost", "confirmed messages were lost",
                "The publisher received the confirm, and the message was never delivered."),
        problem("unexpected", "unpublished message was delivered", "unpublished messages were delivered",
                "Delivered, but never attempted in that queue."),
        problem("unflagged", "redelivery had no flag", "redeliveries had no flag",
                "A message was redelivered with redelivered = false: a consumer cannot recognise the copy."),
        problem("split", "epoch had two masters that confirmed", "epochs had two masters that confirmed",
                "Two nodes confirmed messages of one queue as its master in the same epoch: split brain."),
        problem("claimed", "epoch had two masters", "epochs had two masters",
                "Two nodes claimed to be master of one queue in the same epoch; only one confirmed."),
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
             "The history does not show that it was empty at the end: lost messages may still be in it."),
        note("duplicated", totals["duplicated"], "delivery was a repetition", "deliveries were repetitions",
             "Delivered more often than published: allowed after failures, if it is flagged."),
        note("recovered", totals["recovered"], "message was delivered without a confirm",
             "messages were delivered without a confirm",
             "The publisher received no confirm, or a nack, and the queue kept the message."),
        note("came_back", totals["came_back"], "acknowledged message was redelivered",
             "acknowledged messages were redelivered",
             "Redelivered after its acknowledgement was sent: the acknowledgement was lost."),
        note("unknown", totals["unknown"], "publish got no reply", "publishes got no reply",
             "Neither confirm nor nack: the connection ended first."),
        note("nacked", totals["nacked"], "publish was refused", "publishes were refused",
             "The broker replied with basic.nack."),
        note("returned", totals["returned"], "message was returned", "messages were returned",
             "No queue was bound for it; its confirm guarantees nothing."),
        note("unended", unended, "fault never ended", "faults never ended",
             "The audit assumes that it lasts until the end of the history."),
    ]  # fmt: skip
