"""View of a ring: master and mirrors of one queue, as the metadata decided them.

A view is only ever replaced by its successor, whose `version` is one higher. The version of a proposed view
therefore names the view that it is based on, and a proposal that comes too late changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class View(NamedTuple):
    """Version of a ring in the metadata."""

    epoch: int
    """Number that grows when the queue gets a master: another node, or the same one after a restart."""
    version: int
    """Number that grows with every change, and never goes back."""
    members: tuple[str, ...]
    """Master first, then the mirrors in order of age."""
    in_sync: frozenset[str]
    """Synchronised members: they have everything that was ever confirmed, and any of them may become
    master."""
    joining: frozenset[str] = frozenset()
    """Members that confirms wait for already, but that may still lack messages confirmed before they
    joined."""

    joined: frozenset[tuple[str, int]] = frozenset()
    """Pairs (member, version that it joined with). A member that failed and returned is another member."""

    sync_generations: frozenset[tuple[str, int]] = frozenset()
    """Pairs (member, sync generation of its copy); 0 for the queue's first members. A member that has started
    another synchronisation since is not synchronised, even if the view lists it as such."""

    incarnations: frozenset[tuple[str, int]] = frozenset()
    """Pairs (member, incarnation of its node in this ring).

    A later incarnation is another member, even if no node noticed the end of the earlier one. The incarnation
    of a member that is not listed is unknown.
    """

    @property
    def master(self) -> str:
        """Member that orders operations."""
        return self.members[0]

    def awaits_confirms_of(self, name: str) -> bool:
        """Return whether confirms wait for this member."""
        return name in self.in_sync or name in self.joining

    def sync_generation(self, name: str) -> int:
        """Return the sync generation of a member's copy."""
        return dict(self.sync_generations).get(name, 0)

    def incarnation_of(self, name: str) -> int:
        """Return the incarnation with which a member belongs to the ring; 0 if it is unknown."""
        return dict(self.incarnations).get(name, 0)

    def with_incarnations(self, incarnations: Mapping[str, int]) -> View:
        """Return this view with the given incarnations for members whose incarnation is unknown."""
        if len(self.incarnations) == len(self.members):
            return self
        known = dict(self.incarnations)
        completed = {name: known.get(name) or incarnations.get(name, 0) for name in self.members}
        return self._replace(incarnations=frozenset(item for item in completed.items() if item[1]))

    def with_members(self, members: tuple[str, ...], *, epoch: int = 0) -> View:
        """Return the next view with these members. New members join with its version; former members are
        dropped."""
        version = self.version + 1
        known = dict(self.joined)
        present = frozenset(members)
        joined = frozenset(
            (name, known.get(name, 0) if name in self.members else version) for name in members
        )
        generations = frozenset(
            (name, generation) for name, generation in self.sync_generations if name in present
        )
        incarnations = frozenset(
            (name, incarnation) for name, incarnation in self.incarnations if name in present
        )
        in_sync, joining = self.in_sync & present, self.joining & present
        return View(
            epoch or self.epoch, version, members, in_sync, joining, joined, generations, incarnations
        )

    def with_sync_generation(self, in_sync: frozenset[str], joining: dict[str, int]) -> View:
        """Return the next view with these synchronised and joining members, each with its sync generation."""
        generations = {name: self.sync_generation(name) for name in in_sync} | joining
        return self._replace(
            version=self.version + 1,
            in_sync=in_sync,
            joining=frozenset(joining),
            sync_generations=frozenset(generations.items()),
        )

    def joined_with(self, name: str) -> int:
        """Return the version that a member joined with; -1 for a node that is not a member."""
        return dict(self.joined).get(name, 0) if name in self.members else -1


def alone(node: str) -> View:
    """Return the first view of a queue on one node."""
    return View(1, 0, (node,), frozenset({node}))
