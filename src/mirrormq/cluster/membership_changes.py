"""How nodes come into a cluster and leave it.

**Who belongs to the cluster** is said twice: by the metadata (`State.nodes`, which also says where a node is)
and by the agreement (who votes). The metadata is what is wanted: a node joins by having its record
written, and is forgotten by having it deleted, on whichever node that is asked for. Whoever leads then
makes the voters follow, one change at a time. So neither needs to survive a change of leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mirrormq.cluster.cluster_messages import ClusterMessage, ForgottenNotice, JoinRefused, JoinRequest
from mirrormq.consensus import ChangePending
from mirrormq.metadata import commands, records

if TYPE_CHECKING:
    from mirrormq.cluster.member import Member

JOIN_REQUEST_TICKS = 40
"""A joining node that has heard nothing asks again after so many ticks: a second."""


class Send(Protocol):
    """Send a message to a node, if there is a link to it."""

    def __call__(self, peer: str, message: ClusterMessage, urgent: bool) -> None: ...


class MembershipChanges:
    """One node's part in that: asking to be let in, letting in, and, as leader, making it so."""

    def __init__(self, member: Member, send: Send) -> None:
        self._member = member
        self._send = send
        self._silent_ticks = 0
        self._join_requests = 0

    def tick(self) -> None:
        """Time passes."""
        self._follow_the_metadata()
        if not self._member.joined:
            self._silent_ticks += 1
            if self._silent_ticks % JOIN_REQUEST_TICKS == 0:
                self.request_join()

    def heard(self, peer: str) -> bool:
        """A node talks to us as a member of our cluster; False if it is none any more, and is told so."""
        self._silent_ticks = 0
        member = self._member
        known = member.consensus.state.log.members.everyone
        if not member.leading or peer in known or peer in member.metadata.state.nodes:
            return True
        self._send(peer, ForgottenNotice(), urgent=True)
        return False

    def request_join(self) -> None:
        """Ask to be let in: one after the other, since some may belong to no cluster themselves."""
        linked = sorted(self._member.linked)
        if linked:
            peer = linked[self._join_requests % len(linked)]
            self._join_requests += 1
            self._send(peer, JoinRequest(self._member.name, self._member.address), urgent=True)

    def admit(self, peer: str, request: JoinRequest) -> None:
        """Write down that a node belongs to us; whoever leads does the rest."""
        member, state = self._member, self._member.metadata.state
        if not member.joined or peer != request.name:
            return
        if peer in member.consensus.members.voters:
            reason = f"{peer} is a member already; let the cluster forget it first (forget_cluster_node)"
            self._send(peer, JoinRefused(reason), urgent=True)
        elif peer not in state.nodes:
            if member.name not in state.nodes:
                member.metadata.write(commands.PutNode(records.Node(member.name, member.address)))
            # Every life of a node has cost an entry, so this is above all that one of this name ever had.
            incarnation = member.consensus.applied_index
            member.metadata.write(commands.PutNode(records.Node(peer, request.address, incarnation)))

    def _follow_the_metadata(self) -> None:
        """As leader: let the voters be those whom the metadata names, one change at a time."""
        member, nodes = self._member, self._member.metadata.state.nodes
        members = member.consensus.state.log.members.everyone
        if not member.leading or not nodes or nodes.keys() == set(members):
            return
        extra = sorted(set(members) - nodes.keys(), key=lambda name: (name == member.name, name))
        missing = sorted(nodes.keys() - set(members))
        try:
            if extra:
                member.consensus.propose_members(remove=extra[0])
            elif missing:
                member.consensus.propose_members(add=missing[0])
        except (ChangePending, ValueError):
            return  # an earlier change is on its way; or the last voter is asked to leave, which it cannot
