"""A node's place in its cluster: the links to the others, and what is agreed on over them.

The deciding is done by a pure object, the steward (`cluster.controller`). Here it gets what it lacks:
sockets, a clock, files, and the loop. All of it is there as long as the process is, whether or not the node
serves clients; those who serve register with `follow` and hear of links and of messages that are for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import traceback
from typing import Any, Protocol

import msgspec

from mirrormq.cluster.cluster_messages import ClusterMessage, JoinRefused, JoinRequest
from mirrormq.cluster.command_messages import CommandReply, CommandRequest
from mirrormq.cluster.controller import ApplicationHost, ClusterController, ControllerMessage
from mirrormq.cluster.member import TICK_MS, Member
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
from mirrormq.peers.peer_handshake import PeerIdentity
from mirrormq.runtime.peer_dialler import PeerAddress
from mirrormq.runtime.peer_links import PeerLinks
from mirrormq.runtime.peer_rpc import PeerRpc
from mirrormq.storage.journal_errors import JournalFailed

FOR_IMPOSTORS = (JoinRefused, CommandRequest, CommandReply)
FROM_IMPOSTORS = (JoinRequest, CommandRequest, CommandReply)
"""What may be said to a node that has lost its disk, and what is heard from it."""

EXAMINE_S = 0.5
"""How often a node that should know its cluster and did not is asked whether it does by now."""

HAND_OVER_TIMEOUT_S = 1.0
"""How long a leader that stops waits for another to take over: some ten round trips of a slow network. If
nobody does, the others find out by themselves."""


class LinkFollower(Protocol):
    """Who uses the links while the node serves clients. Called on the loop; must not block."""

    def link_up(self, peer: str, session: int) -> None: ...
    def link_down(self, peer: str, reason: str) -> None: ...
    def link_message(self, peer: str, message: Any) -> None: ...
    def link_relieved(self, peer: str) -> None: ...


class ClusterNodeHost(Protocol):
    """What it needs of the node."""

    settings: Settings
    log: Any
    loop: asyncio.AbstractEventLoop

    def die(self, failure: Exception) -> None:
        """Something has failed without which no promise can be kept."""

    def cluster_changed(self) -> None:
        """The answer to a question about the cluster may be another than before."""

    def applied(self) -> None:
        """The metadata has changed."""

    async def respond(self, request: Request) -> dict[str, Any]:
        """Carry out a verb that another node asks for."""


class ClusterNode:
    """One node among others, or alone. Implements `interlink_server.LinkUser`."""

    def __init__(
        self, node: ClusterNodeHost, application_host: ApplicationHost, files: RaftStorage, address: str
    ) -> None:
        self._node = node
        self._application_host = application_host
        self.settings = node.settings
        self.address = address
        """Where other nodes reach this one; empty if they cannot."""
        self.forced = False
        """The operator said `force_boot`: whoever is there is enough."""
        self.refused = ""
        """Why a cluster does not let this node in."""
        self.peer_links: PeerLinks | None = None
        self.questions = PeerRpc(self.send, node.respond)
        self._followers: list[LinkFollower] = []
        self._seeds: dict[str, str] = {}
        self._dialled: dict[str, str] = {}
        self._dial_scheduled = False
        self._impostors: set[str] = set()
        self._examining: dict[str, asyncio.Task[None]] = {}
        self._work_scheduled = False
        self._ticking: asyncio.TimerHandle | None = None
        self.take_part(files)

    # -- beginning and ending -------------------------------------------------------------------

    def take_part(self, files: RaftStorage) -> None:
        """Be the member that the files say; whatever was before is over."""
        self.refused = self._disowned_by = ""
        handling = self._handling()
        self.member = Member(
            self.settings.name, files, handling.quorum(), random.randrange, self.send, self._wake,
            address=self.address,
        )  # fmt: skip
        self.member.listeners.append(self._hear)
        self.member.metadata.listeners.append(self._follow)
        self.controller = ClusterController(
            self.member, handling, self._application_host, random.randrange, self.send,
            self.settings.mirroring_promotion_timeout_ms,
        )  # fmt: skip
        if self.peer_links is not None:
            for peer in self.peer_links.peers:
                self.controller.up(peer, self.peer_links.session(peer) or 0, self._stated_by(peer))
            self._impostors.clear()
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
        """Whoever is there is enough, until everybody is."""
        self._set_forced(True)
        self.member.force()

    def _set_forced(self, forced: bool) -> None:
        self.forced = forced
        handling = self._handling()
        self.controller.handling = self.controller.serving.handling = handling
        self.member.set_rule(handling.quorum())

    def connect(self, peer_links: PeerLinks) -> None:
        """Links are possible from now on."""
        self.peer_links = peer_links
        peer_links.options.statement = lambda: msgspec.msgpack.encode(self.member.consensus.durable_state)

    def _stated_by(self, peer: str) -> DurableState | None:
        """How far a peer's disk is, as it stated when the link came up."""
        statement = self.peer_links.statement(peer) if self.peer_links is not None else b""
        with contextlib.suppress(msgspec.MsgspecError, ValueError):
            return msgspec.msgpack.decode(statement, type=DurableState)
        return None

    def begin(self) -> None:
        """Let time pass."""
        if self.peer_links is not None:
            self._introduce_ourselves()
        self._tick()

    def _introduce_ourselves(self) -> None:
        """Others must hear which cluster this node belongs to, and it must find them."""
        assert self.peer_links is not None
        self.peer_links.options.identity = PeerIdentity(self.settings.name, self.member.cluster_id)
        self._dial()

    async def close(self) -> None:
        """Leave the lead to another and end the links."""
        self.member.hand_over()
        deadline = self._node.loop.time() + HAND_OVER_TIMEOUT_S
        while self.member.leading and self.member.linked and self._node.loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(TICK_MS / 1000)
        if self._ticking is not None:
            self._ticking.cancel()
        if self.peer_links is not None:
            await self.peer_links.stop()

    # -- questions ------------------------------------------------------------------------------

    @property
    def members(self) -> list[str]:
        """Everybody who belongs to the cluster, by name."""
        return sorted({self.settings.name, *self.member.metadata.state.nodes})

    @property
    def forgotten(self) -> bool:
        """Did the cluster that this node belonged to take it out?"""
        if not self.member.cluster_id:
            return False
        nodes = self.member.metadata.state.nodes
        unknown = bool(nodes) and self.settings.name not in nodes
        return bool(self._disowned_by) or unknown or not self.member.joined

    def disagreement(self) -> str:
        """The same in RabbitMQ's words."""
        me = self.settings.name
        peer = max((name for name in self.members if name != me), default=self._disowned_by)
        return (
            f"{{:rabbit, {{{{:inconsistent_cluster, 'Node {me} thinks it\\'s clustered with node {peer}, but "
            f"{peer} disagrees'}}, {{:rabbit, :start, [:normal, []]}}}}}}"
        )

    # -- links ----------------------------------------------------------------------------------

    def follow(self, follower: LinkFollower) -> None:
        """Hear of links, those that are there first."""
        self._followers.append(follower)
        for peer in self.peer_links.peers if self.peer_links is not None else ():
            if peer not in self._impostors:
                assert self.peer_links is not None
                follower.link_up(peer, self.peer_links.session(peer) or 0)

    def unfollow(self, follower: LinkFollower) -> None:
        """Hear no more."""
        if follower in self._followers:
            self._followers.remove(follower)

    def send(self, peer: str, message: Any, urgent: bool = False) -> None:
        """Send a message if there is a link."""
        if self.peer_links is not None and (
            peer not in self._impostors or isinstance(message, FOR_IMPOSTORS)
        ):
            self.peer_links.send(peer, message, urgent)

    def flush(self) -> None:
        """Let what was sent leave soon."""
        if self.peer_links is not None:
            self.peer_links.flush()

    def congested(self, peer: str) -> bool:
        """Does so much wait for this node that callers should slow down?"""
        return self.peer_links is not None and self.peer_links.congested(peer)

    def on_up(self, peer: str, session: int) -> None:
        if self._is_impostor(peer):
            self._impostors.add(peer)
            self._examining[peer] = self._node.loop.create_task(self._examine(peer))
            return
        self.controller.up(peer, session, self._stated_by(peer))
        for follower in list(self._followers):
            follower.link_up(peer, session)
        if self.forced and {self.settings.name, *self.member.linked} >= set(self.members):
            self._set_forced(False)
        self._node.cluster_changed()

    def _is_impostor(self, peer: str) -> bool:
        """Is it a member by name, but one that knows nothing? Then it has lost its disk, and with it what it
        promised to the others. It must not be taken for the member that it was: the cluster has to
        forget that one first, and let this one in as a new node. (Or it was let in while it shook hands.)"""
        assert self.peer_links is not None
        return self.peer_links.is_blank(peer) and peer in self.member.consensus.members.voters

    async def _examine(self, peer: str) -> None:
        """Ask it whether it knows by now what cluster it belongs to."""
        said = False
        while peer in self._impostors:
            with contextlib.suppress(ControlError):
                told = await self.questions.ask(peer, Request("membership", [self.settings.name]))
                if told["joined"] and told["cluster"] == self.member.cluster_id:
                    self._greet_again(peer)
                elif not said:
                    said = True
                    self._node.log.warning(
                        f"{peer} is a member, but it has lost its data: let it be forgotten"
                    )
            await asyncio.sleep(EXAMINE_S)

    def _greet_again(self, peer: str) -> None:
        """It is the member that it says it is, or it is none any more: a node like any other."""
        if self.peer_links is not None:
            self.peer_links.renew(peer)

    def on_down(self, peer: str, reason: str) -> None:
        self.questions.down(peer)
        if peer in self._impostors:
            self._impostors.discard(peer)
            self._examining.pop(peer).cancel()
            return
        self.controller.down(peer, reason)
        for follower in list(self._followers):
            follower.link_down(peer, reason)
        self._node.cluster_changed()

    def on_message(self, peer: str, payload: Any) -> None:
        if peer in self._impostors and not isinstance(payload, FROM_IMPOSTORS):
            return
        if isinstance(payload, ClusterMessage | ControllerMessage):
            self.controller.receive(peer, payload)
        elif isinstance(payload, CommandRequest | CommandReply):
            self.questions.receive(peer, payload)
        else:
            for follower in list(self._followers):
                follower.link_message(peer, payload)

    def on_relief(self, peer: str) -> None:
        for follower in list(self._followers):
            follower.link_relieved(peer)

    def on_slept(self, slept_ms: int) -> None:
        self._node.cluster_changed()

    def seek(self, seeds: dict[str, str]) -> None:
        """Dial these as well, name to address: through one of them this node will find its cluster."""
        self._seeds = seeds
        self._dial()

    def _dial_soon(self) -> None:
        """Once for all the changes that come together."""
        if not self._dial_scheduled:
            self._dial_scheduled = True
            self._node.loop.call_soon(self._dial)

    def _dial(self) -> None:
        """Keep links to all members, and to those who are to let this node in."""
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
        """End all links and dial nobody: this node is about to belong to another cluster."""
        self._seeds = {}
        assert self.peer_links is not None
        for name in {*self._dialled, *self.peer_links.peers}:
            self.peer_links.remove_peer(name)
        self._dialled = {}

    # -- work -----------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._ticking = self._node.loop.call_later(TICK_MS / 1000, self._tick)
        self.controller.tick(int(self._node.loop.time() * 1000))

    def _wake(self) -> None:
        if not self._work_scheduled:
            self._work_scheduled = True
            self._node.loop.call_soon(self._work)

    def _work(self) -> None:
        self._work_scheduled = False
        try:
            if self.controller.work():
                self._node.applied()
            if self.controller.coordinator.pending:
                self._wake()
        except (JournalFailed, DamageError) as failure:
            self._node.die(failure)
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            self._node.log.error(f"an unexpected error while following the cluster:\n{text}")

    def _follow(self, change: Change) -> None:
        if isinstance(change.record, records.Node):
            self._dial_soon()
            self._node.cluster_changed()

    def _hear(self, event: MemberEvent) -> None:
        log = self._node.log
        match event:
            case LeaderChanged(leader, term):
                log.info(f"{leader or 'nobody'} leads the cluster", term=term)
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
                log.info(f"{peer} has caught up: its votes count again")
            case ForkFound(fork):
                log.warning(f"{fork.peer} went on without this node, and this node without it")
            case ForkHealed(peer):
                log.info(f"{peer} and this node share one history again")
            case MembersChanged() if self.peer_links is not None:
                self._introduce_ourselves()
                for peer in self._impostors - set(self.member.consensus.members.voters):
                    self._greet_again(peer)
        self._node.cluster_changed()
