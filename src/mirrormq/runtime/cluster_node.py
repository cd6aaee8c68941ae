"""Cluster membership of one node: its peer links, and the metadata that the cluster agrees on.

The pure cluster controller (`cluster.controller`) decides. This module gives it sockets, a clock, files
and the event loop. All of this exists as long as the process does, whether or not the node serves clients.
The application registers with `follow` and is notified of links and of messages addressed to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import traceback
from typing import Any, Protocol

import msgspec

from mirrormq.cluster.cluster_messages import JoinRefused, JoinRequest
from mirrormq.cluster.command_messages import CommandReply, CommandRequest
from mirrormq.cluster.controller import ApplicationHost, ClusterController
from mirrormq.cluster.member import ALONE_TICK_MS, TICK_MS, Member
from mirrormq.cluster.member_events import (
    CaughtUp,
    Forgotten,
    ForkFound,
    ForkHealed,
    LeaderChanged,
    MemberEvent,
    MembersChanged,
    Refused,
    WentBack,
)
from mirrormq.cluster.partitions import IGNORE, PartitionHandling
from mirrormq.config.settings import Settings
from mirrormq.consensus import DurableState, RaftStorage
from mirrormq.control.control_protocol import ControlError, Request
from mirrormq.errors import DamageError
from mirrormq.metadata import records
from mirrormq.metadata.changes import Change
from mirrormq.metadata.command_versions import lowest_version
from mirrormq.peers.link_loss import LinkLoss
from mirrormq.peers.peer_handshake import PeerIdentity
from mirrormq.peers.stream_frames import StreamFrame, StreamHello
from mirrormq.protocol_version import PROTOCOL_VERSION_OLDEST
from mirrormq.replication.ring_messages import RingBatch
from mirrormq.runtime.commit_polls import CommitPolls
from mirrormq.runtime.log_output import Logger
from mirrormq.runtime.peer_dialler import PeerAddress
from mirrormq.runtime.peer_links import PeerLinks
from mirrormq.runtime.peer_rpc import PeerRpc
from mirrormq.storage.journal_errors import JournalFailed

TO_BLANK_MEMBERS = (JoinRefused, CommandRequest, CommandReply)
FROM_BLANK_MEMBERS = (JoinRequest, CommandRequest, CommandReply)
"""Messages that may be sent to a node that has lost its disk, and messages accepted from it."""

QUEUE_MESSAGES = frozenset((RingBatch, StreamFrame, StreamHello))
"""Messages for the application. They are by far the most frequent ones, so they are recognised first."""

EXAMINE_S = 0.5
"""Seconds between two membership requests to a member that has lost its disk."""

HAND_OVER_TIMEOUT_S = 1.0
"""Seconds that a stopping leader waits for a successor: some ten round trips of a slow network. Without a
successor the followers elect one after their election timeout."""


class LinkFollower(Protocol):
    """User of the links and of the peers' alarms while the node serves clients. Called on the loop; must not
    block."""

    def link_up(self, peer: str, session: int) -> None: ...
    def link_down(self, peer: str, loss: LinkLoss) -> None: ...
    def link_message(self, peer: str, message: Any) -> None: ...
    def link_relieved(self, peer: str) -> None: ...
    def peer_alarms(self, alarms: dict[str, tuple[str, ...]]) -> None: ...


class ClusterNodeHost(Protocol):
    """Interface of the node that `ClusterNode` requires."""

    settings: Settings
    log: Logger
    loop: asyncio.AbstractEventLoop

    def die(self, failure: Exception) -> None:
        """Stop the process: without the failed part no guarantee can be kept."""

    def cluster_changed(self) -> None:
        """Wake everything that waits for a change of the cluster's state."""

    def applied(self) -> None:
        """Act on a change of the metadata."""

    async def respond(self, request: Request) -> dict[str, Any]:
        """Execute a command that another node requests."""


class ClusterNode:
    """Member of a cluster, or a cluster of one node. Implements `peer_links.LinkListener`."""

    def __init__(
        self, node: ClusterNodeHost, application_host: ApplicationHost, files: RaftStorage, address: str
    ) -> None:
        self._node = node
        self._application_host = application_host
        self.settings = node.settings
        self.address = address
        """Address at which other nodes reach this one; empty if they cannot."""
        self.forced = False
        """The operator ran `force_boot`: the connected nodes suffice as a quorum."""
        self.refused = ""
        """Reason why a cluster rejects this node, or empty."""
        self.peer_links: PeerLinks | None = None
        self.rpc = PeerRpc(self.send, node.respond)
        self._followers: list[LinkFollower] = []
        self._seeds: dict[str, str] = {}
        self._dialled: dict[str, str] = {}
        self._dial_scheduled = False
        self._blank_members: set[str] = set()
        self._examining: dict[str, asyncio.Task[None]] = {}
        self._work_scheduled = False
        self._commit_polls = CommitPolls()
        self._ticking: asyncio.TimerHandle | None = None
        self.become_member(files)

    # -- start and stop -------------------------------------------------------------------------

    def become_member(self, files: RaftStorage) -> None:
        """Become the member that `files` describe. Any earlier membership ends."""
        self.refused = self._disowned_by = ""
        handling = self._handling()
        self.member = Member(
            self.settings.name, files, handling.quorum(), random.randrange, self.send, self._wake,
            address=self.address, minority_begins=self._minority_begins,
        )  # fmt: skip
        self.member.static_shovels = self.settings.static_shovel_names
        self.member.listeners.append(self._on_member_event)
        self.member.metadata.listeners.append(self._on_metadata_change)
        self.controller = ClusterController(
            self.member, handling, self._application_host, random.randrange, self.send,
            self._alarms_heard, self.settings.mirroring_promotion_timeout_ms,
        )  # fmt: skip
        if self.peer_links is not None:
            for peer in self.peer_links.peers:
                self.controller.up(peer, self.peer_links.session(peer) or 0, self._stated_by(peer))
            self._blank_members.clear()
            self._introduce_ourselves()

    def _handling(self) -> PartitionHandling:
        settings = self.settings
        if self.forced:
            return PartitionHandling(IGNORE)
        listed = frozenset(settings.pause_if_all_down_nodes)
        return PartitionHandling(
            settings.cluster_partition_handling, listed, settings.pause_if_all_down_recover
        )

    def force(self) -> None:
        """Accept the connected nodes as a quorum until all members are connected."""
        self._set_forced(True)
        self.member.force()

    def _set_forced(self, forced: bool) -> None:
        self.forced = forced
        self.controller.set_handling(self._handling())

    def connect(self, peer_links: PeerLinks) -> None:
        """Use `peer_links` for all traffic with other nodes."""
        self.peer_links = peer_links
        peer_links.options.statement = lambda: msgspec.msgpack.encode(self.member.consensus.durable_state)
        peer_links.options.oldest = self._oldest_accepted

    def _oldest_accepted(self) -> int:
        """Return the oldest protocol version that a peer may have. The log of a cluster may contain commands
        of the version that all its members have; a node that joins a cluster has no log."""
        assert self.peer_links is not None
        state = self.member.metadata.state
        of_a_cluster = self.peer_links.options.identity.cluster_id and state.nodes
        return lowest_version(state) if of_a_cluster else PROTOCOL_VERSION_OLDEST

    def _stated_by(self, peer: str) -> DurableState | None:
        """Return the durable Raft state that the peer announced when its link came up, if it is readable."""
        statement = self.peer_links.statement(peer) if self.peer_links is not None else b""
        with contextlib.suppress(msgspec.MsgspecError, ValueError):
            return msgspec.msgpack.decode(statement, type=DurableState)
        return None

    def begin(self) -> None:
        """Start the tick timer."""
        if self.peer_links is not None:
            self._introduce_ourselves()
        self._tick()

    def _introduce_ourselves(self) -> None:
        """Announce this node's cluster id in handshakes, and dial the members."""
        assert self.peer_links is not None
        self.peer_links.options.identity = PeerIdentity(self.settings.name, self.member.cluster_id)
        self._dial()

    async def close(self) -> None:
        """Transfer the leadership to another node and close the links."""
        self.member.hand_over()
        deadline = self._node.loop.time() + HAND_OVER_TIMEOUT_S
        while self.member.leading and self.member.linked and self._node.loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(TICK_MS / 1000)
        if self._ticking is not None:
            self._ticking.cancel()
        if self.peer_links is not None:
            await self.peer_links.stop()

    # -- queries --------------------------------------------------------------------------------

    @property
    def members(self) -> list[str]:
        """Names of all cluster members, sorted."""
        return sorted({self.settings.name, *self.member.metadata.state.nodes})

    @property
    def forgotten(self) -> bool:
        """Whether the cluster has removed this node from its members."""
        if not self.member.cluster_id:
            return False
        nodes = self.member.metadata.state.nodes
        unknown = bool(nodes) and self.settings.name not in nodes
        return bool(self._disowned_by) or unknown or not self.member.joined

    def disagreement(self) -> str:
        """Return RabbitMQ's error text for a node that its cluster has removed."""
        me = self.settings.name
        peer = max((name for name in self.members if name != me), default=self._disowned_by)
        return (
            f"{{:rabbit, {{{{:inconsistent_cluster, 'Node {me} thinks it\\'s clustered with node {peer}, but "
            f"{peer} disagrees'}}, {{:rabbit, :start, [:normal, []]}}}}}}"
        )

    # -- links ----------------------------------------------------------------------------------

    def follow(self, follower: LinkFollower) -> None:
        """Register a link follower, and report the existing links to it."""
        self._followers.append(follower)
        for peer in self.peer_links.peers if self.peer_links is not None else ():
            if peer not in self._blank_members:
                assert self.peer_links is not None
                follower.link_up(peer, self.peer_links.session(peer) or 0)

    def unfollow(self, follower: LinkFollower) -> None:
        """Remove a link follower."""
        if follower in self._followers:
            self._followers.remove(follower)

    def send(self, peer: str, message: Any, urgent: bool = False) -> None:
        """Send a message if a link to `peer` exists."""
        if self.peer_links is not None and (
            peer not in self._blank_members or isinstance(message, TO_BLANK_MEMBERS)
        ):
            self.peer_links.send(peer, message, urgent)

    def _minority_begins(self) -> None:
        self.controller.partition_started()

    def _alarms_heard(self, alarms: dict[str, tuple[str, ...]]) -> None:
        for follower in list(self._followers):
            follower.peer_alarms(alarms)

    def flush(self) -> None:
        """Schedule the write of sent messages to the sockets."""
        if self.peer_links is not None:
            self.peer_links.flush()

    def congested(self, peer: str) -> bool:
        """Return whether the output for `peer` is so large that callers should slow down."""
        return self.peer_links is not None and self.peer_links.congested(peer)

    def on_up(self, peer: str, session: int) -> None:
        if self._is_blank_member(peer):
            self._blank_members.add(peer)
            self._examining[peer] = self._node.loop.create_task(self._examine(peer))
            return
        self.controller.up(peer, session, self._stated_by(peer))
        for follower in list(self._followers):
            follower.link_up(peer, session)
        # force_boot relaxes the quorum only until all members are connected once.
        if self.forced and {self.settings.name, *self.member.linked} >= set(self.members):
            self._set_forced(False)
        self._node.cluster_changed()

    def _is_blank_member(self, peer: str) -> bool:
        """Return whether `peer` is a voter by name that reports no cluster.

        Such a node has lost its disk, and with it its Raft promises to the others. It must not be taken
        for the member that it was. The cluster has to forget that member first and admit this node as a
        new one. (Or it was admitted while the handshake ran.)
        """
        assert self.peer_links is not None
        return self.peer_links.is_blank(peer) and peer in self.member.consensus.members.voters

    async def _examine(self, peer: str) -> None:
        """Ask the peer repeatedly whether it knows its cluster by now."""
        warned = False
        while peer in self._blank_members:
            with contextlib.suppress(ControlError):
                membership = await self.rpc.ask(peer, Request("membership", [self.settings.name]))
                if membership["joined"] and membership["cluster"] == self.member.cluster_id:
                    self._renew_link(peer)
                elif not warned:
                    warned = True
                    self._node.log.warning(
                        f"{peer} is a member but has lost its data: run forget_cluster_node, "
                        "then let it join again"
                    )
            await asyncio.sleep(EXAMINE_S)

    def _renew_link(self, peer: str) -> None:
        """Renew the link to a peer that is a proper member again, or no member."""
        if self.peer_links is not None:
            self.peer_links.renew(peer)

    def on_down(self, peer: str, loss: LinkLoss) -> None:
        self.rpc.down(peer)
        if peer in self._blank_members:
            self._blank_members.discard(peer)
            self._examining.pop(peer).cancel()
            return
        self.controller.down(peer, silent=loss.silent)
        for follower in list(self._followers):
            follower.link_down(peer, loss)
        self._node.cluster_changed()

    def on_message(self, peer: str, payload: Any) -> None:
        if peer in self._blank_members and not isinstance(payload, FROM_BLANK_MEMBERS):
            return
        if type(payload) in QUEUE_MESSAGES:
            for follower in list(self._followers):
                follower.link_message(peer, payload)
        elif isinstance(payload, CommandRequest | CommandReply):
            self.rpc.receive(peer, payload)
        else:
            self.controller.receive(peer, payload)

    def on_relief(self, peer: str) -> None:
        for follower in list(self._followers):
            follower.link_relieved(peer)

    def on_slept(self, slept_ms: int) -> None:
        self._node.cluster_changed()

    def seek(self, seeds: dict[str, str]) -> None:
        """Dial `seeds` (name to address) as well: through one of them this node finds its cluster."""
        self._seeds = seeds
        self._dial()

    def _dial_soon(self) -> None:
        """Schedule one `_dial` for all changes of this turn."""
        if not self._dial_scheduled:
            self._dial_scheduled = True
            self._node.loop.call_soon(self._dial)

    def _dial(self) -> None:
        """Keep links to all members, and to the seeds while this node is not a member."""
        self._dial_scheduled = False
        nodes = self.member.metadata.state.nodes.values()
        wanted = {node.name: node.address for node in nodes if node.address}
        if not self.member.joined or self.forgotten:
            wanted = {**wanted, **self._seeds}
        wanted.pop(self.settings.name, None)
        if self.peer_links is None:
            return
        for name in self._dialled.keys() - wanted.keys():
            self.peer_links.remove_dialler(name)
            del self._dialled[name]
        for name, address in wanted.items():
            if self._dialled.get(name) != address:
                self._dialled[name] = address
                host, _, port = address.rpartition(":")
                self.peer_links.add_peer(PeerAddress(name, host, int(port)))

    def cut_all(self) -> None:
        """Close all links and stop dialling: this node is about to join another cluster."""
        self._seeds = {}
        assert self.peer_links is not None
        for name in {*self._dialled, *self.peer_links.peers}:
            self.peer_links.remove_peer(name)
        self._dialled = {}

    # -- work -----------------------------------------------------------------------------------

    def _tick(self) -> None:
        pause_ms = ALONE_TICK_MS if self.controller.alone else TICK_MS
        self._ticking = self._node.loop.call_later(pause_ms / 1000, self._tick)
        self.controller.tick(int(self._node.loop.time() * 1000))

    def _wake(self) -> None:
        if not self._work_scheduled:
            self._work_scheduled = True
            self._node.loop.call_soon(self._work)

    def _work(self) -> None:
        self._work_scheduled = False
        metadata = self.member.metadata
        if self._commit_polls.once_more(metadata.last_written, metadata.unsettled):
            self._wake()
            return
        try:
            if self.controller.work():
                self._node.applied()
            if self.controller.work_pending:
                self._wake()
        except (JournalFailed, DamageError) as failure:
            self._node.die(failure)
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            self._node.log.error(f"unexpected error in the cluster controller:\n{text}")

    def _on_metadata_change(self, change: Change) -> None:
        if isinstance(change.record, records.Node):
            self._dial_soon()
            self._node.cluster_changed()

    def _on_member_event(self, event: MemberEvent) -> None:
        log = self._node.log
        match event:
            case LeaderChanged(leader, term):
                log.info(f"{leader or 'no node'} leads the cluster", term=term)
            case Refused(by, reason):
                if reason != self.refused:
                    self.refused = reason
                    log.warning(f"{by} does not let this node join: {reason}")
            case Forgotten(by):
                if not self._disowned_by:
                    log.error(
                        f"{by} says that the cluster has taken this node out: reset it, and let it join"
                    )
                self._disowned_by = by
            case WentBack(node) if node == self.settings.name:
                log.error(
                    "the data directory of this node is older than what the cluster has seen of it: "
                    "the node does not vote until it has caught up"
                )
            case WentBack(node):
                log.error(
                    f"the data directory of {node} is older than what this node has seen of it: "
                    f"votes of {node} do not count until it has caught up"
                )
            case CaughtUp(peer):
                log.info(f"{peer} has caught up with the cluster: its votes count again")
            case ForkFound(fork):
                log.warning(f"metadata has forked: {fork.peer} and this node continued without each other")
            case ForkHealed(peer):
                log.info(f"metadata fork with {peer} is healed: both nodes share one history")
            case MembersChanged() if self.peer_links is not None:
                self._introduce_ourselves()
                for peer in self._blank_members - set(self.member.consensus.members.voters):
                    self._renew_link(peer)
        self._node.cluster_changed()
