"""Settings of the Raft core, each with its reason. The runtime defines the length of a tick."""

from __future__ import annotations

import msgspec

RUNS_MAX = 1024
"""Changes of leader that a history remembers. A node that missed more of them is reported as forked. At one
election an hour that is six weeks, and 12 kB in a vote."""

ORIGINS_MAX = 64
"""Nodes that left the cluster and whose applied proposals are still remembered. An operator never replaces
more nodes while a duplicate of one of their proposals is in flight."""

BRANCH_IDS = 1 << 62
"""Range of branch numbers: large enough that two sides never draw the same, small enough for msgpack."""


class RaftSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts and limits of one Raft node."""

    election_ticks: int = 10
    """Election timeout. A random wait of up to the same length is added. Ten heartbeats, the proportion that
    Raft deployments converged on."""

    heartbeat_ticks: int = 1
    """Ticks between two heartbeats of a leader."""

    stagger_ticks: int = 5
    """Distance between candidates, by name, when the failure detector reports the leader gone. Two round
    trips and as many syncs, so that the first one is elected before the second stands."""

    append_bytes_max: int = 256 * 1024
    """Bytes of entries in one message (a larger entry travels alone): a few milliseconds of a 1 Gbit/s
    link."""

    inflight_max: int = 16
    """Append messages in flight to one follower: 4 MB, more than a link of 100 ms holds at 300 Mbit/s."""

    chunk_bytes_max: int = 256 * 1024
    """Bytes of a snapshot in one message: the limit of entries, so that neither starves heartbeats."""

    trailing_bytes: int = 1024 * 1024
    """Bytes of entries kept in memory behind a snapshot, so that a slightly late follower needs no
    snapshot."""

    committed_bytes_max: int = 8 * 1024
    """Bytes of committed entries that are applied together (a larger entry alone): fifty promotions, or as
    many declarations. A node serves its clients before it applies more."""

    proposal_bytes_max: int = 8 * 1024 * 1024
    """Largest proposal: thirty times the largest metadata command seen, a queue with huge arguments."""

    proposals_max: int = 1024
    """Proposals of one node between its oldest unsettled one and its newest. Bounds the table that recognises
    duplicates, which every snapshot carries: eight bytes for each."""

    promotion_lag_entries: int = 64
    """Lag up to which a learner may become a voter: one more round trip at most."""
