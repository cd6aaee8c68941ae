"""Joining and leaving of nodes.

Both the metadata (`MetadataState.nodes`, with each node's address) and the consensus (the voters) record
the members. The metadata is the desired state: a node joins when any node writes its record, and leaves
when any node deletes it. The leader then makes the voters follow, one change at a time. Neither step has to
survive a change of leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mirrormq.cluster.cluster_messages import ClusterMessage, ForgottenNotice, JoinRefused, JoinRequest
from mirrormq.consensus import ChangePending
from mirrormq.metadata import commands, records
from mirrormq.metadata.command_versions import lowest_version

if TYPE_CHECKING:
    from mirrormq.cluster.member import Member

JOIN_REQUEST_TICKS = 40
"""Ticks after which a joining node without a reply repeats its request: one second."""


class Send(Protocol):
    """Function that sends a message to a node, if there is a link to it."""

    def __call__(self, peer: str, message: ClusterMessage, urgent: bool) -> None: ...


class MembershipChanges:
    """Membership protocol of one node: requests to join, admits others and, as leader, updates the voters."""

    def __init__(self, member: Member, send: Send) -> None:
        self._member = member
        self._send = send
        self._silent_ticks = 0
        self._join_requests = 0

    def tick(self) -> None:
        """Update the voters on the leader; repeat the join request on a joining node."""
        self._reconcile_voters()
        if not self._member.joined:
            self._silent_ticks += 1
            if self._silent_ticks % JOIN_REQUEST_TICKS == 0:
                self.request_join()

    def confirm_member(self, peer: str) -> bool:
        """Process a sign of membership from a peer. Return False, and notify the peer, if it is no longer a
        member."""
        self._silent_ticks = 0
        member = self._member
        known = member.consensus.state.log.members.everyone
        if not member.leading or peer in known or peer in member.metadata.state.nodes:
            return True
        self._send(peer, ForgottenNotice(), urgent=True)
        return False

    def request_join(self) -> None:
        """Send a join request to the next peer in turn, since some peers may belong to no cluster
        themselves."""
        linked = sorted(self._member.linked)
        if linked:
            peer = linked[self._join_requests % len(linked)]
            self._join_requests += 1
            request = JoinRequest(self._member.name, self._member.address, self._member.version)
            self._send(peer, request, urgent=True)

    def admit(self, peer: str, request: JoinRequest) -> None:
        """Write the record of a joining node. The leader then makes it a voter."""
        member, state = self._member, self._member.metadata.state
        if not member.joined or peer != request.name:
            return
        if peer in member.consensus.members.voters:
            reason = f"{peer} is a member already; let the cluster forget it first (forget_cluster_node)"
            self._send(peer, JoinRefused(reason), urgent=True)
        elif request.version < (lowest := lowest_version(state)):
            # Its log may have commands that a node of an older version cannot decode.
            reason = (
                f"{peer} speaks version {request.version} of the cluster protocol, and every member of the "
                f"cluster version {lowest}; upgrade {peer} first"
            )
            self._send(peer, JoinRefused(reason), urgent=True)
        elif peer not in state.nodes:
            if member.name not in state.nodes:
                founder = records.Node(member.name, member.address, version=member.version)
                member.metadata.write(commands.PutNode(founder))
            # Each incarnation costs a log entry, so this is higher than any that a node of this name had.
            incarnation = member.consensus.applied_index
            joining = records.Node(peer, request.address, incarnation, version=request.version)
            member.metadata.write(commands.PutNode(joining))

    def _reconcile_voters(self) -> None:
        """Add or remove one voter on the leader, if the voters differ from the nodes in the metadata."""
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
            return  # an earlier change is uncommitted, or the change would remove the last voter
