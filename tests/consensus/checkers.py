"""Checkers of the Raft paper's claims (its figure 3): objects that watch a run and raise on a violation.

With the rule `Reachable` some claims are weaker by design: two sides may both lead a term, and apply
different entries at one index. `NothingTakenBack` and (term, branch) state what must still hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.consensus import Entry, RaftRole

if TYPE_CHECKING:
    from tests.consensus.world import Node


class Violation(AssertionError):
    """Violated claim."""


def claim(holds: bool, text: str) -> None:
    if not holds:
        raise Violation(text)


class ElectionSafety:
    """At most one leader in a term; with Reachable, at most one in a term of a branch."""

    def __init__(self, majority: bool) -> None:
        self._majority = majority
        self._leaders: dict[tuple[int, int], str] = {}

    def look(self, node: Node) -> None:
        core = node.core
        if core is not None and core.role is RaftRole.LEADER:
            branch = 0 if self._majority else core.state.run.branch
            before = self._leaders.setdefault((core.term, branch), node.name)
            claim(before == node.name, f"term {core.term} has two leaders: {before} and {node.name}")


class LeaderAppendOnly:
    """A leader never drops or changes an entry of its log."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int, tuple[int, int] | None]] = {}

    def look(self, node: Node) -> None:
        core = node.core
        if core is None or core.role is not RaftRole.LEADER:
            return
        log, before = core.state.log, self._seen.get(node.name)
        if before is not None and before[0] == core.term:
            claim(log.last >= before[1] and log.writer(before[1]) == before[2], "a leader rewrote its log")
        self._seen[node.name] = (core.term, log.last, log.writer(log.last))


class LogMatching:
    """Entries with the same (index, term, branch) are equal and have equal predecessors, on every disk."""

    def __init__(self) -> None:
        self._entries: dict[tuple[int, int, int], tuple[Entry, tuple[int, int] | None]] = {}

    def wrote(self, node: Node, entry: Entry) -> None:
        assert node.core is not None
        pair = (entry, node.core.state.log.writer(entry.index - 1))
        known = self._entries.setdefault((entry.index, entry.term, entry.branch), pair)
        claim(known == pair, f"{node.name} wrote {pair}, elsewhere it is {known}")


class LeaderCompleteness:
    """A committed entry is in the log of every leader of a later term."""

    def __init__(self) -> None:
        self._highest: tuple[int, tuple[int, int] | None, int] = (0, None, 0)
        self._judged: set[tuple[str, int]] = set()

    def look(self, node: Node) -> None:
        core = node.core
        if core is None:
            return
        if core.role is RaftRole.LEADER and (node.name, core.term) not in self._judged:
            self._judged.add((node.name, core.term))
            index, writer, term = self._highest
            if writer is not None and term < core.term:
                claim(core.state.log.writer(index) == writer, f"{node.name} leads without entry {index}")
        if core.commit_index > self._highest[0]:
            writer = core.state.log.writer(core.commit_index)
            self._highest = (core.commit_index, writer, core.term)


class StateMachineSafety:
    """No two nodes apply different entries at one index."""

    def __init__(self) -> None:
        self._applied: dict[int, tuple[str, int]] = {}

    def applied(self, node: Node, index: int, what: tuple[str, int]) -> None:
        known = self._applied.setdefault(index, what)
        claim(known == what, f"{node.name} applied {what} at {index}, another node {known}")


class ExactlyOnce:
    """No proposal is applied twice in one history, and no applied entry lacks a proposal."""

    def __init__(self) -> None:
        self._proposed: set[tuple[str, int]] = set()

    def proposed(self, what: tuple[str, int]) -> None:
        self._proposed.add(what)

    def applied(self, node: Node, index: int, what: tuple[str, int]) -> None:
        claim(what in self._proposed, f"nobody proposed {what}")
        claim(what not in node.machine, f"{node.name} applied {what} twice")


class NothingTakenBack:
    """Entries that a node applied stay applied on it, also after a crash, until an explicit reset."""

    def __init__(self) -> None:
        self._known: dict[str, list[tuple[str, int]]] = {}

    def reset(self, name: str) -> None:
        self._known.pop(name, None)

    def changed(self, node: Node) -> None:
        """Check that applied entries equal the earlier ones. A node that replays its log may be behind
        them."""
        known = self._known.get(node.name, [])
        shared = min(len(known), len(node.machine))
        claim(known[:shared] == node.machine[:shared], f"{node.name} took back what it had applied")
        if len(node.machine) > len(known):
            self._known[node.name] = list(node.machine)

    def caught_up(self, node: Node) -> None:
        """Check that a node is not behind its earlier state. Call this when the world is settled."""
        claim(len(node.machine) >= len(self._known.get(node.name, [])), f"{node.name} lost what it applied")
