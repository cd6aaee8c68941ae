"""Join, leave and reset of a cluster, for the commands of `control/commands/cluster.py`.

Joining and resetting discard the node's data. They run every check that can fail first, and only then
empty the data directory. A crash in between leaves an empty node, which is what the operator requested.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrormq.consensus import Snapshot
from mirrormq.control.control_protocol import EXIT_TIMEOUT, ControlError, Request
from mirrormq.peers.peer_handshake import PeerIdentity
from mirrormq.runtime import formation
from mirrormq.runtime.peer_dialler import PeerAddress
from mirrormq.runtime.peer_rpc import ANSWER_TIMEOUT_S

if TYPE_CHECKING:
    from mirrormq.config.settings import Settings
    from mirrormq.runtime.cluster_node import ClusterNode
    from mirrormq.runtime.node import Node

REACH_TIMEOUT_S = 5.0
"""Seconds for another node to accept a link: a dial, and a second one after a pause."""

JOIN_TIMEOUT_S = 30.0
"""Seconds to be admitted to a cluster and to receive its metadata, which may be large."""

POLL_S = 0.02

KEPT = frozenset({"lock", "log", "cookie", "node"})
"""Entries of the data directory that a reset keeps, because they are not broker data."""

OFFLINE = (
    "{:offline_node_no_offline_flag, 'You are trying to remove a node from an offline node. That is "
    "dangerous, but can be done with the --offline flag. Please consult the manual for mirrormqctl for more "
    "information.'}"
)
NOT_A_MEMBER = "{:not_a_cluster_node, 'The node selected is not in the cluster.'}"
NOBODY_THERE = "{:no_running_cluster_nodes, 'You cannot leave a cluster if no online nodes are present.'}"
NOT_RUNNING = "mnesia_not_running"


class MembershipCommands:
    """Cluster commands of the operator. Implements `control.node_interface.ClusterInterface`."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def _cluster_node(self) -> ClusterNode:
        return self._node.cluster_node

    @property
    def _settings(self) -> Settings:
        return self._node.settings

    # -- queries --------------------------------------------------------------------------------

    @property
    def members(self) -> list[str]:
        return self._cluster_node.members

    @property
    def running(self) -> list[str]:
        here, me = self._cluster_node, self._settings.name
        nodes = here.member.metadata.state.nodes
        reachable = {name for name in here.member.linked if name in nodes and nodes[name].running}
        return sorted(reachable | ({me} if self._node.serving else set()))

    @property
    def partitions(self) -> dict[str, list[str]]:
        apart = self._cluster_node.controller.partitions
        return {self._settings.name: apart} if apart else {}

    @property
    def address(self) -> str:
        return self._cluster_node.address

    async def ask(self, peer: str, request: Request, timeout_s: float | None = None) -> Any:
        return await self._cluster_node.rpc.ask(peer, request, timeout_s or ANSWER_TIMEOUT_S)

    async def ask_other_nodes(self, request: Request) -> list[Any]:
        peers = [name for name in self.running if name != self._settings.name]
        answers = await asyncio.gather(*(self.ask(peer, request) for peer in peers), return_exceptions=True)
        for peer, answer in zip(peers, answers, strict=True):
            if isinstance(answer, ControlError):
                self._node.log.warning(f"{peer} did not answer {request.verb}: {answer.text}")
            elif isinstance(answer, BaseException):
                raise answer
        return [answer for answer in answers if not isinstance(answer, BaseException)]

    def membership(self, name: str) -> dict[str, Any]:
        """Return the facts that another node needs before it joins."""
        here = self._cluster_node
        return {
            "joined": here.member.joined,
            "cluster": here.member.cluster_id,
            "serving": self._node.serving,
            "knows": name in here.member.metadata.state.nodes,
        }

    # -- leaving --------------------------------------------------------------------------------

    async def forget(self, name: str) -> None:
        """Remove a stopped node from the cluster."""
        member = self._cluster_node.member
        record = member.metadata.state.nodes.get(name)
        if not self._node.serving:
            raise ControlError(OFFLINE)
        if record is None:
            raise ControlError(NOT_A_MEMBER)
        if record.running:
            raise ControlError(
                f"RabbitMQ on node {name} must be stopped with 'mirrormqctl -n {name} stop_app' "
                "before it can be removed"
            )
        member.forget(name)
        await self._node.settled()

    async def reset(self, *, force: bool) -> None:
        """Discard all data and form a cluster of one node."""
        if not force:
            await self._leave()
        self._discard_data()
        formation.found_cluster(self._cluster_node, self._node.files)

    async def _leave(self) -> None:
        """Let the cluster forget this node, if the cluster has other members."""
        here, me = self._cluster_node, self._settings.name
        if here.forgotten or here.members == [me]:
            return
        nodes = here.member.metadata.state.nodes
        serving = sorted(name for name in here.member.linked if name in nodes and nodes[name].running)
        if not serving:
            raise ControlError(NOBODY_THERE)
        await self.ask(serving[0], Request("forget_cluster_node", [me]))

    def _discard_data(self) -> None:
        """Delete the data on disk. Close the links first, so that no peer mistakes the empty node for a
        member."""
        here = self._cluster_node
        if here.peer_links is not None:
            here.cut_all()
        self._node.files.close()
        for entry in self._settings.data_directory.iterdir():
            if entry.name not in KEPT:
                _remove(entry)
        self._node.timeline.clear()
        self._node.open_files(Snapshot)
        here.become_member(self._node.files)

    def force_boot(self) -> None:
        """Start without waiting for other nodes."""
        self._cluster_node.force()

    # -- joining --------------------------------------------------------------------------------

    async def join(self, name: str, address: str) -> bool:
        """Join the cluster of node `name`. Return False if this node is a member already."""
        here = self._cluster_node
        if name in here.members and not here.forgotten:
            return False
        if here.peer_links is None:
            raise ControlError("This node has no listener for other nodes: set cluster.listener.")
        address = address or self._known_address(name)
        await self._check(name, address)
        if here.members != [self._settings.name] and not here.forgotten:
            await self._leave()
        self._discard_data()
        here.seek({name: address})
        try:
            await self._admit(name)
        except ControlError:
            formation.found_cluster(here, self._node.files)
            raise
        return True

    def _known_address(self, name: str) -> str:
        """Return the configured address of a node, or the default address of its name."""
        named = {
            seed.name: seed.address for seed in (*self._settings.join, *self._settings.classic_config_nodes)
        }
        if name in named:
            return str(named[name])
        return str(formation.default_address(name))

    async def _check(self, name: str, address: str) -> None:
        """Ask a node whether joining it can succeed, before any data is discarded."""
        here = self._cluster_node
        peer_links = here.peer_links
        assert peer_links is not None
        before = peer_links.options.identity
        peer_links.options.identity = PeerIdentity(self._settings.name, "")
        host, _, port = address.rpartition(":")
        peer_links.add_peer(PeerAddress(name, host, int(port)))
        try:
            await _until(
                lambda: peer_links.session(name) is not None,
                REACH_TIMEOUT_S,
                lambda: _unreachable(name, address, peer_links.start_blocker(name)),
            )
            membership = await self.ask(name, Request("membership", [self._settings.name]))
        finally:
            peer_links.remove_peer(name)
            peer_links.options.identity = before
        if not membership["serving"]:
            raise ControlError(NOT_RUNNING)
        if membership["knows"]:
            raise ControlError(
                f"Node {name} still counts {self._settings.name} among its cluster: run "
                f"'mirrormqctl -n {name} forget_cluster_node {self._settings.name}' first."
            )

    async def _admit(self, name: str) -> None:
        here = self._cluster_node
        late = f"node {name} did not admit this node within {JOIN_TIMEOUT_S:g} s"
        await _until(
            lambda: bool(here.refused) or (here.member.joined and here.member.leader is not None),
            JOIN_TIMEOUT_S,
            lambda: ControlError(late, EXIT_TIMEOUT),
        )
        if here.refused:
            raise ControlError(here.refused)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _unreachable(name: str, address: str, reason: str) -> ControlError:
    text = f"unable to perform an operation on node '{name}': no link to it at {address}"
    return ControlError(f"{text}: {reason}" if reason else text)


async def _until(condition: Callable[[], bool], timeout_s: float, late: Callable[[], ControlError]) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise late()
        await asyncio.sleep(POLL_S)
