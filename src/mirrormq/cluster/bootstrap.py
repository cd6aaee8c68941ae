"""A cluster of one: how every cluster begins, and what a node without others is."""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.cluster.member import Member
from mirrormq.consensus import Automatic, MemoryLog, Snapshot, founded
from mirrormq.consensus.raft_settings import BRANCH_IDS


def new_cluster(name: str, choose: Callable[[int], int]) -> Snapshot:
    """What the first node of a new cluster starts from. Each cluster gets a number of its own."""
    return founded([name], 1 + choose(BRANCH_IDS - 1))


def member_in_memory(name: str = "node@localhost") -> Member:
    """A node on its own whose metadata lasts as long as the object."""
    return Member(name, MemoryLog(new_cluster(name, lambda below: 0)), Automatic(), lambda below: 0)
