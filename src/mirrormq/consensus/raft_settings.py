"""The numbers of the core, each with its reason. One tick is what the runtime makes of it."""

from __future__ import annotations

import msgspec

RUNS_MAX = 1024
"""How many changes of leader a history remembers. A node that slept through more of them is reported
as forked instead of being trusted; at one election an hour that is six weeks, and 12 kB in a vote."""

ORIGINS_MAX = 64
"""Nodes that left the cluster and whose applied proposals are still remembered: more than would ever
be replaced while a duplicate of one of their proposals is on its way."""

BRANCH_IDS = 1 << 62
"""Branch numbers are drawn from so many that two sides never draw the same, and that msgpack keeps them."""


class RaftSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How patient and how greedy a node is."""

    election_ticks: int = 10
    """Silence after which a leader is missed; each wait is lengthened by up to as much again, at random.
    Ten heartbeats, the proportion that Raft deployments converged on."""

    heartbeat_ticks: int = 1
    """Ticks between two signs of life of a leader."""

    stagger_ticks: int = 5
    """When the failure detector says that a leader is gone, candidates stand one after another at this
    distance, by name: two round trips and as many syncs, so that the first one is elected before the
    second has to try."""

    append_bytes_max: int = 256 * 1024
    """Entries in one message (a single larger entry still goes): a few milliseconds of a 1 Gbit/s link."""

    inflight_max: int = 16
    """Append messages on their way to one follower: 4 MB, more than a link of 100 ms holds at 300 Mbit/s."""

    chunk_bytes_max: int = 256 * 1024
    """Part of a snapshot in one message: as much as entries, so that neither starves heartbeats."""

    trailing_bytes: int = 1024 * 1024
    """Entries kept in memory behind a snapshot, so that a follower a few entries late needs none."""

    proposal_bytes_max: int = 8 * 1024 * 1024
    """The largest proposal: thirty times the largest metadata command seen, a queue with huge arguments."""

    proposals_max: int = 1024
    """Proposals of one node between its oldest unsettled one and its newest. Bounds the table that
    recognises duplicates, which every snapshot carries: eight bytes for each."""

    promotion_lag_entries: int = 64
    """A learner this close to the end of the log may vote: it needs one more round trip at most."""
