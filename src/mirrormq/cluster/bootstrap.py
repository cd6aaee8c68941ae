"""Bootstrap of a cluster with one node. Every cluster starts this way, and a single node stays so."""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.cluster.member import Member
from mirrormq.consensus import Automatic, MemoryLog, Snapshot, founded
from mirrormq.consensus.raft_settings import BRANCH_IDS


def new_cluster(name: str, choose: Callable[[int], int]) -> Snapshot:
    """Return the initial snapshot of a new cluster's first node. Each cluster draws its own id."""
    return founded([name], 1 + choose(BRANCH_IDS - 1))


def member_in_memory(name: str = "node@localhost") -> Member:
    """Return the member of a single node whose metadata is in memory only."""
    return Member(name, MemoryLog(new_cluster(name, lambda below: 0)), Automatic(), lambda below: 0)
