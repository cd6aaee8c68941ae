"""Raft consensus of the nodes on one log, without clocks, sockets and files. The essay is in `raft.py`."""

from mirrormq.consensus.consensus_errors import (
    Busy,
    ChangePending,
    ConsensusError,
    NotLeader,
    UnsafeTruncation,
)
from mirrormq.consensus.log_history import LogHistory, TermRun
from mirrormq.consensus.quorum import Automatic, Majority, QuorumRule, Reachable
from mirrormq.consensus.raft import Consensus
from mirrormq.consensus.raft_messages import (
    Committed,
    DurableState,
    Entry,
    HardState,
    Members,
    Message,
    Snapshot,
)
from mirrormq.consensus.raft_settings import RaftSettings
from mirrormq.consensus.raft_state import RaftRole
from mirrormq.consensus.raft_storage import (
    MemoryLog,
    RaftStorage,
    StoredLog,
    decode_message,
    encode_message,
    founded,
)
from mirrormq.consensus.ready import Forked, Ready

__all__ = [
    "Automatic",
    "Busy",
    "ChangePending",
    "Committed",
    "Consensus",
    "ConsensusError",
    "DurableState",
    "Entry",
    "Forked",
    "HardState",
    "LogHistory",
    "Majority",
    "Members",
    "MemoryLog",
    "Message",
    "NotLeader",
    "QuorumRule",
    "RaftRole",
    "RaftSettings",
    "RaftStorage",
    "Reachable",
    "Ready",
    "Snapshot",
    "StoredLog",
    "TermRun",
    "UnsafeTruncation",
    "decode_message",
    "encode_message",
    "founded",
]
