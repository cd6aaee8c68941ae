"""Fork recovery on one node. The arbiter picks the winner; a losing node fetches its metadata and restarts.

The part of each node:

    the arbiter, once a fork has lasted    notifies each loser of the winner (`autoheal`)
    a loser                                fetches the winner's metadata, discards its own (`state_transfer`)
    a node that does not serve             joins the nodes that do, without a notice
    a winner                               exports its metadata
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from mirrormq.cluster import autoheal
from mirrormq.cluster.autoheal import LoserNotice, Presence
from mirrormq.cluster.lifecycle import ApplicationLifecycle, LifecycleHost
from mirrormq.cluster.member import Member
from mirrormq.cluster.partitions import PartitionHandling
from mirrormq.cluster.state_transfer import StateChunk, StateExport, StateFetch, StateRequest
from mirrormq.metadata.state import MetadataState

HEAL_AFTER_MS = 3000
"""Time that a fork must last before the arbiter notifies a side. Links come back, and presences report the
fork, within one or two seconds."""

ForkRecoveryMessage = LoserNotice | StateRequest | StateChunk


class Send(Protocol):
    """Function that sends a message to a node, if there is a link to it."""

    def __call__(self, peer: str, message: ForkRecoveryMessage, urgent: bool) -> None: ...


class ForkRecoveryHost(LifecycleHost, Protocol):
    """Application whose side may lose."""

    def discard_state(self, winner: MetadataState, common: int, done: Callable[[], None]) -> None:
        """Discard this node's state, because its side has lost; then call `done`. `common` is the last entry
        that the metadata logs of both sides share.

        Close clients, set aside what the winner's cluster lacks, and stop. If the application does not run,
        set aside what is on disk.
        """


class ForkRecovery:
    """Fork recovery of one node."""

    def __init__(
        self,
        member: Member,
        handling: PartitionHandling,
        presences: Mapping[str, Presence],
        serving: ApplicationLifecycle,
        application: ForkRecoveryHost,
        send: Send,
    ) -> None:
        self._member = member
        self._handling = handling
        self._presences = presences
        self._serving = serving
        self._application = application
        self._send = send
        self._exports = StateExport(member)
        self._state_fetch = StateFetch(
            member, self._give_up, lambda peer, message: send(peer, message, urgent=True)
        )
        self._forked_since_ms: int | None = None
        self._winner = ""
        """Winner of the current fork, as this node decided while it was the arbiter."""

    # -- queries --------------------------------------------------------------------------------

    @property
    def under_way(self) -> str:
        """Description of a state transfer in progress; empty if there is none."""
        return f"it fetches the metadata of {self._state_fetch.winner}" if self._state_fetch.under_way else ""

    @property
    def start_blocker(self) -> str:
        """Reason why this node must not serve with its own history; empty if it may."""
        others = self._to_join()
        names = ", ".join(presence.node for presence in others)
        return f"it must first join {names}, whose metadata is forked from its own" if others else ""

    def _to_join(self) -> list[Presence]:
        """Return the serving nodes with a forked history that this node must not serve beside."""
        member = self._member
        forked = member.linked & member.consensus.forks.keys()
        return autoheal.nodes_to_join(member.linked, forked, self._presences) if forked else []

    # -- input ----------------------------------------------------------------------------------

    def down(self, peer: str) -> None:
        """Process the loss of the link to a node."""
        self._state_fetch.down(peer)
        self._exports.forget(peer)

    def receive(self, peer: str, message: ForkRecoveryMessage) -> None:
        """Process a message from a node's link."""
        match message:
            case LoserNotice():
                forked = self._member.consensus.forks
                if autoheal.accepts_notice(self._member.name, self._member.linked, forked, peer, message):
                    self._state_fetch.begin(message.winner)
            case StateRequest():
                if self._state_fetch.lets_follow(peer):
                    self._send(peer, self._exports.part(peer, message), urgent=False)
            case StateChunk():
                self._state_fetch.received(peer, message)

    def goes_on(self, now_ms: int) -> bool:
        """Check the timeout of a state transfer, and return whether it is still in progress."""
        return self._state_fetch.goes_on(now_ms)

    def seek(self, now_ms: int, own: Callable[[], Presence]) -> None:
        """Resolve forks: a node that does not serve joins the nodes that do; the arbiter notifies the
        losers."""
        member = self._member
        # A node without clients gives up nothing by joining, so it waits for no arbiter and no time limit.
        if not self._serving.running and (winner := autoheal.node_to_join(self._to_join())):
            self._state_fetch.begin(winner)
            return
        if not member.consensus.forks and not any(presence.forked for presence in self._presences.values()):
            self._forked_since_ms, self._winner = None, ""
            return
        if self._forked_since_ms is None:
            self._forked_since_ms = now_ms
        known = {**self._presences, member.name: own()}
        lasting = now_ms - self._forked_since_ms >= HEAL_AFTER_MS
        voters = member.consensus.members.voters
        # Without autoheal the operator chooses a side, unless no side serves: then no client is cut off.
        if lasting and (self._handling.heals(voters) or autoheal.no_side_continues(voters, known)):
            self._decide(known)

    def _decide(self, known: Mapping[str, Presence]) -> None:
        member = self._member
        for name, notice in autoheal.arbiter_decisions(member.name, member.linked, known, self._winner):
            # Remembered: the losers' clients reconnect elsewhere, which could reverse the order of the sides.
            self._winner = notice.winner
            if name == member.name:
                self._state_fetch.begin(notice.winner)
            else:
                self._send(name, notice, urgent=True)

    def _give_up(self, winner: MetadataState, common: int, done: Callable[[], None]) -> None:
        def stopped() -> None:
            self._serving.stopped()
            done()

        self._serving.give_way(lambda: self._application.discard_state(winner, common, stopped))
