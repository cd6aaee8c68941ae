"""Who holds a queue: its ring as the metadata has decided it.

A view is only ever replaced by its successor (`version` one higher), so whoever proposes one says by that
number which view it started from, and a proposal that comes too late changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class View(NamedTuple):
    """Who is in the ring, as the metadata has decided."""

    epoch: int
    """Grows when the master changes, or comes back."""
    version: int
    """Grows with every change, and never goes back."""
    members: tuple[str, ...]
    """In order of age, the master first."""
    in_sync: frozenset[str]
    """They have everything that was ever confirmed, and any of them may become master."""
    joining: frozenset[str] = frozenset()
    """Confirms wait for them already, but they may still lack what was confirmed before."""

    joined: frozenset[tuple[str, int]] = frozenset()
    """(member, the version that it joined with): one that died and came back is another member."""

    sync_generations: frozenset[tuple[str, int]] = frozenset()
    """(member, attempt): which synchronisation its standing rests on; 0 for those who were born with
    the queue. A member that has begun again since has lost it, whatever the view says."""

    incarnations: frozenset[tuple[str, int]] = frozenset()
    """(member, which of its node's lives belongs to the ring). A later life is another member, even if
    nobody noticed that the earlier one ended. Whoever is not listed is of no life that is known of."""

    @property
    def master(self) -> str:
        """The member that orders operations."""
        return self.members[0]

    def awaits_confirms_of(self, name: str) -> bool:
        """Do confirms wait for this member?"""
        return name in self.in_sync or name in self.joining

    def sync_generation(self, name: str) -> int:
        """The attempt that a member's standing rests on."""
        return dict(self.sync_generations).get(name, 0)

    def incarnation_of(self, name: str) -> int:
        """The life with which a member belongs to the ring; 0 if that is not known."""
        return dict(self.incarnations).get(name, 0)

    def with_incarnations(self, incarnations: Mapping[str, int]) -> View:
        """The same view, in which members whose life is not known have these."""
        if len(self.incarnations) == len(self.members):
            return self
        known = dict(self.incarnations)
        there = {name: known.get(name) or incarnations.get(name, 0) for name in self.members}
        return self._replace(incarnations=frozenset(item for item in there.items() if item[1]))

    def with_members(self, members: tuple[str, ...], *, epoch: int = 0) -> View:
        """The next view, with these members; whoever is new joins with it, whoever left is forgotten."""
        version = self.version + 1
        known = dict(self.joined)
        there = frozenset(members)
        joined = frozenset(
            (name, known.get(name, 0) if name in self.members else version) for name in members
        )
        attempts = frozenset((name, attempt) for name, attempt in self.sync_generations if name in there)
        incarnations = frozenset(
            (name, incarnation) for name, incarnation in self.incarnations if name in there
        )
        in_sync, joining = self.in_sync & there, self.joining & there
        return View(epoch or self.epoch, version, members, in_sync, joining, joined, attempts, incarnations)

    def with_sync_generation(self, in_sync: frozenset[str], joining: dict[str, int]) -> View:
        """The next view, with these synchronised and these joining, each by its attempt."""
        attempts = {name: self.sync_generation(name) for name in in_sync} | joining
        return self._replace(
            version=self.version + 1,
            in_sync=in_sync,
            joining=frozenset(joining),
            sync_generations=frozenset(attempts.items()),
        )

    def joined_with(self, name: str) -> int:
        """The version that a member joined with; -1 if it is none."""
        return dict(self.joined).get(name, 0) if name in self.members else -1


def alone(node: str) -> View:
    """The first view of a queue that lives on one node."""
    return View(1, 0, (node,), frozenset({node}))
