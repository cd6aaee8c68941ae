"""State of a live audit after a batch, without the pending messages; one JSON file per batch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mirrormq.spark.audit.ledger import (
    GAP,
    GONE,
    LEASED,
    TAKEN_OVER,
    UNSEEN,
    AuditTick,
    DeliveryLedger,
    TickVerdict,
)
from mirrormq.spark.pipeline_errors import PipelineError

CLASSES = (
    "published",
    "ok",
    "out",
    "waiting",
    "lost",
    "unflagged",
    "duplicated",
    "before",
    GONE,
    LEASED,
    UNSEEN,
)

SERIOUS = ("lost", "unflagged")

OPEN = ("out", "waiting")
"""Classes of pending messages: delivered and possibly redelivered; not yet delivered."""

FINDINGS_MAX = 1000
"""Findings kept individually; the totals count everything."""

QUEUES_MAX = 10_000
"""Queues with separate counts; further ones are in the totals only."""

ECHOES_MAX = 1024
"""Ticks remembered as traced."""


@dataclass(frozen=True)
class Finding:
    """Lost or unflagged messages of a queue, found by one batch."""

    kind: str
    queue: str
    count: int
    time_ms: int
    failovers: int
    """Failovers of the queue while the messages were pending."""
    examples: list[str]

    @property
    def sentence(self) -> str:
        one = self.count == 1
        things, what = {
            "lost": ("message" if one else "messages", "published and not delivered"),
            "unflagged": ("delivery" if one else "deliveries", "repeated without the flag redelivered"),
        }[self.kind]
        shown = f", such as {', '.join(self.examples)}" if self.examples else ""
        meanwhile = " (its master changed meanwhile)" if self.failovers else ""
        return f"{self.count:,} {things} of queue '{self.queue}' {what}{meanwhile}{shown}"


@dataclass
class AuditState:
    """State that the next batch needs and the report shows."""

    ledger: DeliveryLedger
    queues: dict[str, dict[str, int]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CLASSES, 0))
    waiting: dict[str, dict[str, int]] = field(default_factory=dict)
    """Queues with pending messages, and their number by class."""
    findings: list[Finding] = field(default_factory=list)
    traces: int = 0
    """Number of traces and ticks."""
    echoes: int = 0
    """Number of traced ticks: above 0 if tracing is on."""
    gaps: int = 0
    """Number of gaps in the traces."""
    takeovers: int = 0
    """Number of master changes of the trace queue."""
    first_ms: int = 0
    time_ms: int = 0
    """Time of the last tick; `first_ms` is that of the first."""
    unanswered: list[list[int]] = field(default_factory=list)
    """[place, time] of ticks whose own trace has not arrived yet."""
    echoed: list[int] = field(default_factory=list)
    """Times of ticks whose own trace arrived."""
    verdicts: list[TickVerdict] = field(default_factory=list)
    """Verdicts that this batch allows; not stored."""

    @classmethod
    def new(cls, grace_ms: int) -> AuditState:
        """Return the state before the first batch."""
        return cls(DeliveryLedger(grace_ms))

    @property
    def traffic(self) -> bool:
        """Whether any message was published."""
        return any(self.totals[name] for name in ("published", *OPEN))

    @property
    def passed(self) -> bool:
        return self.traffic and not any(self.totals[name] for name in SERIOUS)

    @property
    def verdict(self) -> str:
        """Summary in one sentence."""
        totals = self.totals
        if not self.traffic:
            return "No verdict: no message was published to a matching queue"
        if self.passed:
            out = totals["ok"] + totals["out"]
            return f"No message was lost: {out:,} delivered, {totals['waiting']:,} pending"
        parts = []
        if totals["lost"]:
            parts.append(f"{totals['lost']:,} published and not delivered")
        if totals["unflagged"]:
            parts.append(f"{totals['unflagged']:,} repeated without the flag redelivered")
        return "Messages: " + ", ".join(parts)

    # --- a batch -----------------------------------------------------------------------------------

    def seen(self, first: int, last: int, count: int) -> None:
        """Record the places of a batch in the trace queue, all of one epoch."""
        self.traces += count
        follow = self.ledger.seen(first, last, count)
        self.gaps += follow == GAP
        self.takeovers += follow == TAKEN_OVER

    def add_ticks(self, rows: Sequence[tuple[int, bool, dict[str, Any]]]) -> None:
        """Process the ticks of a batch in order, and the traces of ticks."""
        latest: dict[str, TickVerdict] = {}
        for place, echo, values in rows:
            if echo:
                self.echoed.append(values["time_ms"])
                self.echoes += 1
                continue
            self.time_ms = values["time_ms"]
            self.first_ms = self.first_ms or self.time_ms
            self.unanswered.append([place, self.time_ms])
            self._detect_untraced()
            tick = AuditTick(
                place,
                self.time_ms,
                values["asked_ms"],
                values.get("queues", {}),
                tuple(values.get("leased", ())),
            )
            for verdict in self.ledger.advance(tick):
                latest[verdict.queue] = verdict
        self.verdicts = list(latest.values())

    def _detect_untraced(self) -> None:
        """Record that tracing was off at a tick that is older than the grace period and was not traced."""
        traced = set(self.echoed)
        self.unanswered = [each for each in self.unanswered if each[1] not in traced]
        self.echoed = self.echoed[-ECHOES_MAX:]
        old = [each for each in self.unanswered if each[1] + self.ledger.grace_ms <= self.time_ms]
        if old:
            self.unanswered = self.unanswered[len(old) :]
            self.ledger.untraced(self.ledger.place)
            self.gaps += 1

    def add(
        self,
        counts: Mapping[str, Mapping[str, Any]],
        waiting: Mapping[str, Mapping[str, int]],
        examples: Mapping[str, Sequence[str]],
    ) -> list[Finding]:
        """Add the counts of judged and pending messages; return the findings."""
        found = []
        for queue, classes in counts.items():
            mine = self._row(queue)
            for name in CLASSES:
                if name in OPEN:
                    continue
                count = int(classes.get(name) or 0)
                mine[name] += count
                self.totals[name] += count
                if count and name in SERIOUS:
                    state = self.ledger.queues.get(queue)
                    failovers = state.failovers if state else 0
                    shown = [example for example in examples.get(queue, ()) if example]
                    found.append(Finding(name, queue, count, self.time_ms, failovers, shown))
        self.findings = [*self.findings, *found][:FINDINGS_MAX]
        for name in OPEN:
            for queue in {*self.waiting, *waiting}:
                self._row(queue)[name] = waiting.get(queue, {}).get(name, 0)
            self.totals[name] = sum(each[name] for each in waiting.values())
        self.waiting = {queue: dict(each) for queue, each in waiting.items()}
        self.ledger.forget([name for name in self.ledger.queues if name not in waiting])
        return found

    def _row(self, queue: str) -> dict[str, int]:
        row = self.queues.get(queue)
        if row is None:
            row = dict.fromkeys(CLASSES, 0)
            if len(self.queues) < QUEUES_MAX:
                self.queues[queue] = row
        return row

    # --- files -------------------------------------------------------------------------------------

    @staticmethod
    def path(directory: Path, number: int) -> Path:
        """Return the path of the state file after a batch."""
        return directory / f"book-{number}.json"

    def as_dict(self) -> dict[str, Any]:
        """Return the state for JSON."""
        findings = [vars(finding) for finding in self.findings]
        return {**vars(self), "ledger": self.ledger.as_dict(), "findings": findings, "verdicts": []}

    def save(self, directory: Path, number: int) -> None:
        """Write the state file atomically."""
        draft = self.path(directory, number).with_suffix(".new")
        with draft.open("w") as file:
            json.dump(self.as_dict(), file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path(directory, number))

    @classmethod
    def load(cls, directory: Path, number: int) -> AuditState:
        """Read the state after a batch."""
        try:
            values = json.loads(cls.path(directory, number).read_text())
        except (OSError, ValueError) as error:
            raise PipelineError(f"the state in {directory} cannot be read: {error}") from None
        values["ledger"] = DeliveryLedger.of(values["ledger"])
        values["findings"] = [Finding(**finding) for finding in values["findings"]]
        return cls(**values)
