"""What a live audit knows after a batch, but for the messages it waits for; kept as one JSON file a batch."""

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
"""Of messages that are still followed: they came out and may come again; they are waited for."""

FINDINGS_MAX = 1000
"""Findings remembered one by one; the totals count everything."""

QUEUES_MAX = 10_000
"""Queues whose counts are remembered; those of further ones are in the totals only."""

ECHOES_MAX = 1024
"""Ticks of which it is remembered that they were traced."""


@dataclass(frozen=True)
class Finding:
    """Messages of a queue that were found lost, or without their flag, by one batch."""

    kind: str
    queue: str
    count: int
    time_ms: int
    failovers: int
    """How often the queue had got another master while they were waited for."""
    examples: list[str]

    @property
    def sentence(self) -> str:
        one = self.count == 1
        things, what = {
            "lost": ("message" if one else "messages", "went in and did not come out"),
            "unflagged": ("delivery" if one else "deliveries", "came again without the flag"),
        }[self.kind]
        shown = f", such as {', '.join(self.examples)}" if self.examples else ""
        meanwhile = " (its master changed meanwhile)" if self.failovers else ""
        return f"{self.count:,} {things} of queue '{self.queue}' {what}{meanwhile}{shown}"


@dataclass
class AuditState:
    """Everything that the next batch needs, and everything that is shown."""

    ledger: DeliveryLedger
    queues: dict[str, dict[str, int]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CLASSES, 0))
    waiting: dict[str, dict[str, int]] = field(default_factory=dict)
    """Queues with messages that are still followed, and how many of each kind."""
    findings: list[Finding] = field(default_factory=list)
    traces: int = 0
    """Traces and ticks there were."""
    echoes: int = 0
    """Ticks that were traced: tracing is on."""
    gaps: int = 0
    """How often traces were missing."""
    takeovers: int = 0
    """How often the queue of traces got another master."""
    first_ms: int = 0
    time_ms: int = 0
    """Of the first tick and the last."""
    unanswered: list[list[int]] = field(default_factory=list)
    """[place, time] of ticks whose own trace has not come yet."""
    echoed: list[int] = field(default_factory=list)
    """Times of ticks whose own trace came."""
    arbiter_decisions: list[TickVerdict] = field(default_factory=list)
    """What this batch allows to be judged."""

    @classmethod
    def new(cls, grace_ms: int) -> AuditState:
        """Before the first batch."""
        return cls(DeliveryLedger(grace_ms))

    @property
    def traffic(self) -> bool:
        """Was anything published?"""
        return any(self.totals[name] for name in ("published", *OPEN))

    @property
    def passed(self) -> bool:
        return self.traffic and not any(self.totals[name] for name in SERIOUS)

    @property
    def verdict(self) -> str:
        """All of it in one sentence."""
        totals = self.totals
        if not self.traffic:
            return "Nothing can be said: no message went into such a queue"
        if self.passed:
            out = totals["ok"] + totals["out"]
            return f"Nothing was lost: {out:,} messages came out, {totals['waiting']:,} are waited for"
        parts = []
        if totals["lost"]:
            parts.append(f"{totals['lost']:,} went in and did not come out")
        if totals["unflagged"]:
            parts.append(f"{totals['unflagged']:,} came again without the flag")
        return "Of the messages " + ", and ".join(parts)

    # --- a batch -----------------------------------------------------------------------------------

    def seen(self, first: int, last: int, count: int) -> None:
        """A batch has these places of the queue of traces, all of one epoch."""
        self.traces += count
        follow = self.ledger.seen(first, last, count)
        self.gaps += follow == GAP
        self.takeovers += follow == TAKEN_OVER

    def hear(self, said: Sequence[tuple[int, bool, dict[str, Any]]]) -> None:
        """The ticks of a batch in their order, and the traces of ticks."""
        latest: dict[str, TickVerdict] = {}
        for place, echo, values in said:
            if echo:
                self.echoed.append(values["time_ms"])
                self.echoes += 1
                continue
            self.time_ms = values["time_ms"]
            self.first_ms = self.first_ms or self.time_ms
            self.unanswered.append([place, self.time_ms])
            self._miss()
            tick = AuditTick(
                place,
                self.time_ms,
                values["asked_ms"],
                values.get("queues", {}),
                tuple(values.get("leased", ())),
            )
            for verdict in self.ledger.advance(tick):
                latest[verdict.queue] = verdict
        self.arbiter_decisions = list(latest.values())

    def _miss(self) -> None:
        """A tick that is a grace old and was not traced says that tracing was off."""
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
        """What was judged, and what is waited for; what was found."""
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
        """The file after a batch."""
        return directory / f"book-{number}.json"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        findings = [vars(finding) for finding in self.findings]
        return {**vars(self), "ledger": self.ledger.as_dict(), "findings": findings, "verdicts": []}

    def save(self, directory: Path, number: int) -> None:
        """Whole or not at all."""
        draft = self.path(directory, number).with_suffix(".new")
        with draft.open("w") as file:
            json.dump(self.as_dict(), file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path(directory, number))

    @classmethod
    def load(cls, directory: Path, number: int) -> AuditState:
        """As it was after a batch."""
        try:
            values = json.loads(cls.path(directory, number).read_text())
        except (OSError, ValueError) as error:
            raise PipelineError(f"the state in {directory} cannot be read: {error}") from None
        values["ledger"] = DeliveryLedger.of(values["ledger"])
        values["findings"] = [Finding(**finding) for finding in values["findings"]]
        return cls(**values)
