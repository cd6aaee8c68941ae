"""Runs with tight limits reach code that short runs never reach, and find the faults there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from mirrormq.consensus import Consensus
from mirrormq.queues.message import Message
from mirrormq.queues.pages import Pages
from mirrormq.replication.lag import LagTracker
from mirrormq.replication.mirror_copy import MirrorCopy
from mirrormq.replication.synchronisation import Contents, Synchronisation
from mirrormq.sequences.sequence_set import SequenceSet
from mirrormq.simulator.seeds import options_of
from mirrormq.simulator.shrinking import outcome
from mirrormq.simulator.tight_limits import TIGHTEST, USUAL, limits_of
from mirrormq.storage.segment_compaction import SegmentCompactor

SEEDS = range(1, 41)

EVERYTHING: dict[str, tuple[type, str, Callable[[Any], bool]]] = {
    "a page is read back": (Pages, "_page_in", lambda given: True),
    "a mirror writes out what it had in memory": (MirrorCopy, "page_out", lambda given: True),
    "a mirror is sent what it lacks": (Synchronisation, "next_batch", lambda given: given is not None),
    "a mirror is late": (LagTracker, "late", bool),
    "publishers wait for their mirrors": (LagTracker, "ring_is_behind", bool),
    "a segment is freed": (SegmentCompactor, "_free_dead", bool),
    "a segment is compacted": (SegmentCompactor, "_compact", bool),
    "the metadata's log becomes a snapshot": (Consensus, "compact", lambda given: True),
}
"""Events in runs with tight limits: the call that shows each, and its result."""


def test_they_get_to_what_takes_thousands_of_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()

    def count(what: str, kind: type, name: str, tells: Callable[[Any], bool]) -> None:
        real = getattr(kind, name)

        def counting(*given: Any, **named: Any) -> Any:
            answer = real(*given, **named)
            seen[what] += tells(answer)
            return answer

        monkeypatch.setattr(kind, name, counting)

    for what, (kind, name, tells) in EVERYTHING.items():
        count(what, kind, name, tells)
    for seed in SEEDS:
        assert not outcome(options_of(seed, tight_limits=True)).wrong
        if all(seen[what] for what in EVERYTHING):
            break
    assert not [what for what in EVERYTHING if not seen[what]]


def test_a_number_decides_which_limits_are_tight() -> None:
    assert limits_of(0) == USUAL
    some = limits_of(4711)
    assert some == limits_of(4711)
    assert some not in (USUAL, TIGHTEST, limits_of(4712))


def test_a_synchronisation_that_ends_with_its_first_batch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    send = Synchronisation.next_batch

    def lazy(self: Synchronisation, contents: Contents, now_ms: int) -> list[Message] | None:
        batch = send(self, contents, now_ms)
        if batch is not None:
            self.missing = SequenceSet()
        return batch

    monkeypatch.setattr(Synchronisation, "next_batch", lazy)
    assert "MirrorsAreEqual" in kinds_found(tight_limits=True)
    assert not kinds_found(tight_limits=False), "and nowhere else"


def kinds_found(*, tight_limits: bool) -> set[str]:
    found: set[str] = set()
    for seed in SEEDS:
        options = options_of(seed, tight_limits=tight_limits)
        if tight_limits or not options.tight_limits:
            found |= outcome(options).kinds
        if "MirrorsAreEqual" in found:
            break
    return found
