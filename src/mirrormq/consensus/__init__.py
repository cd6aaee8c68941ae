"""Agreement of the nodes on one log: Raft without clocks, sockets and files. The essay is in `raft.py`."""

from mirrormq.consensus.errors import Busy, ChangePending, ConsensusError, NotLeader, UnsafeTruncation
from mirrormq.consensus.history import History, Run
from mirrormq.consensus.messages import (
    Committed,
    DurableState,
    Entry,
    HardState,
    Members,
    Message,
    Snapshot,
)
from mirrormq.consensus.quorum import Automatic, Majority, QuorumRule, Reachable
from mirrormq.consensus.raft import Consensus
from mirrormq.consensus.ready import Forked, Ready
from mirrormq.consensus.settings import Settings
from mirrormq.consensus.state import Role
from mirrormq.consensus.storage import MemoryLog, Storage, Stored, decode_message, encode_message, founded

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
    "History",
    "Majority",
    "Members",
    "MemoryLog",
    "Message",
    "NotLeader",
    "QuorumRule",
    "Reachable",
    "Ready",
    "Role",
    "Run",
    "Settings",
    "Snapshot",
    "Storage",
    "Stored",
    "UnsafeTruncation",
    "decode_message",
    "encode_message",
    "founded",
]
