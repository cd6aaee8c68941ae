"""One node's part in it when two sides meet again (`autoheal`): it may decide, obey, or go over by itself.

the arbiter, once a fork has lasted        tells each loser who has won, itself among them
a loser                                    gets the winner's metadata and gives up (`state_fetch`)
a node that does not serve                 joins those who do without being told
a winner                                   hands out its metadata
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
"""How long a fork must have been seen before one side is told to give up: the others' links come back, and
their presences tell of the fork, within a second or two."""

ForkRecoveryMessage = LoserNotice | StateRequest | StateChunk


class Send(Protocol):
    """Send a message to a node, if there is a link to it."""

    def __call__(self, peer: str, message: ForkRecoveryMessage, urgent: bool) -> None: ...


class ForkRecoveryHost(LifecycleHost, Protocol):
    """An application whose side may lose."""

    def discard_state(self, winner: MetadataState, done: Callable[[], None]) -> None:
        """This node's side has lost. Close clients, set aside what the winner's cluster lacks, stop; if it
        does not run, set aside what is on disk. Then call `done`."""


class ForkRecovery:
    """One node's."""

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
        """Who wins, as this node said while it was the arbiter of that fork."""

    # -- what the application must know ---------------------------------------------------------

    @property
    def under_way(self) -> str:
        """What this node is about, if it goes over to others; empty: it does not."""
        return (
            f"it takes over the metadata of {self._state_fetch.winner}" if self._state_fetch.under_way else ""
        )

    @property
    def start_blocker(self) -> str:
        """Why it must not serve where it is; empty: it may."""
        others = self._to_join()
        return f"it is to join {', '.join(presence.node for presence in others)}" if others else ""

    def _to_join(self) -> list[Presence]:
        """Those who serve and went another way, if this node must not serve beside them."""
        member = self._member
        forked = member.linked & member.consensus.forks.keys()
        return autoheal.nodes_to_join(member.linked, forked, self._presences) if forked else []

    # -- what happens ---------------------------------------------------------------------------

    def down(self, peer: str) -> None:
        """The link to a node is gone."""
        self._state_fetch.down(peer)
        self._exports.forget(peer)

    def receive(self, peer: str, message: ForkRecoveryMessage) -> None:
        """A message has come over a node's link."""
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
        """Is this node still going over to others, as time passes?"""
        return self._state_fetch.goes_on(now_ms)

    def seek(self, now_ms: int, own: Presence) -> None:
        """Forks: a node that does not serve joins those who do; the arbiter tells the others who has won."""
        member = self._member
        if not self._serving.running and (winner := autoheal.node_to_join(self._to_join())):
            self._state_fetch.begin(winner)
            return
        if not member.consensus.forks and not any(presence.forked for presence in self._presences.values()):
            self._forked_since_ms, self._winner = None, ""
            return
        if self._forked_since_ms is None:
            self._forked_since_ms = now_ms
        known = {**self._presences, member.name: own}
        lasting = now_ms - self._forked_since_ms >= HEAL_AFTER_MS
        voters = member.consensus.members.voters
        if lasting and (self._handling.heals(voters) or autoheal.no_side_continues(voters, known)):
            self._judge(known)

    def _judge(self, known: Mapping[str, Presence]) -> None:
        member = self._member
        for name, word in autoheal.arbiter_decisions(member.name, member.linked, known, self._winner):
            self._winner = word.winner
            if name == member.name:
                self._state_fetch.begin(word.winner)
            else:
                self._send(name, word, urgent=True)

    def _give_up(self, winner: MetadataState, done: Callable[[], None]) -> None:
        def stopped() -> None:
            self._serving.stopped()
            done()

        self._serving.give_way(lambda: self._application.discard_state(winner, stopped))
