"""One node's part in it when two sides meet again (`healing`): it may decide, obey, or go over by itself.

the arbiter, once a fork has lasted        tells each loser who has won, itself among them
a loser                                    gets the winner's metadata and gives up (`surrender`)
a node that does not serve                 joins those who do without being told
a winner                                   hands out its metadata
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from mirrormq.cluster import healing
from mirrormq.cluster.healing import Presence, YouLost
from mirrormq.cluster.member import Member
from mirrormq.cluster.partitions import Handling
from mirrormq.cluster.serving import Application, Serving
from mirrormq.cluster.surrender import Exports, StatePart, Surrender, WantState
from mirrormq.metadata.state import State

HEAL_AFTER_MS = 3000
"""How long a fork must have been seen before one side is told to give up: the others' links come back, and
their presences tell of the fork, within a second or two."""

ReunionMessage = YouLost | WantState | StatePart


class Send(Protocol):
    """Send a message to a node, if there is a link to it."""

    def __call__(self, peer: str, message: ReunionMessage, urgent: bool) -> None: ...


class Loser(Application, Protocol):
    """An application whose side may lose."""

    def give_up(self, winner: State, done: Callable[[], None]) -> None:
        """This node's side has lost. Close clients, set aside what the winner's cluster lacks, stop; if it
        does not run, set aside what is on disk. Then call `done`."""


class Reunion:
    """One node's."""

    def __init__(
        self,
        member: Member,
        handling: Handling,
        presences: Mapping[str, Presence],
        serving: Serving,
        application: Loser,
        send: Send,
    ) -> None:
        self._member = member
        self._handling = handling
        self._presences = presences
        self._serving = serving
        self._application = application
        self._send = send
        self._exports = Exports(member)
        self._surrender = Surrender(
            member, self._give_up, lambda peer, message: send(peer, message, urgent=True)
        )
        self._forked_since_ms: int | None = None
        self._winner = ""
        """Who wins, as this node said while it was the arbiter of that fork."""

    # -- what the application must know ---------------------------------------------------------

    @property
    def under_way(self) -> str:
        """What this node is about, if it goes over to others; empty: it does not."""
        return f"it takes over the metadata of {self._surrender.winner}" if self._surrender.under_way else ""

    @property
    def hindrance(self) -> str:
        """Why it must not serve where it is; empty: it may."""
        others = self._to_join()
        return f"it is to join {', '.join(presence.node for presence in others)}" if others else ""

    def _to_join(self) -> list[Presence]:
        """Those who serve and went another way, if this node must not serve beside them."""
        member = self._member
        forked = member.linked & member.consensus.forks.keys()
        return healing.those_to_join(member.linked, forked, self._presences) if forked else []

    # -- what happens ---------------------------------------------------------------------------

    def down(self, peer: str) -> None:
        """The link to a node is gone."""
        self._surrender.down(peer)
        self._exports.forget(peer)

    def receive(self, peer: str, message: ReunionMessage) -> None:
        """A message has come over a node's link."""
        match message:
            case YouLost():
                forked = self._member.consensus.forks
                if healing.obeys(self._member.name, self._member.linked, forked, peer, message):
                    self._surrender.begin(message.winner)
            case WantState():
                if self._surrender.lets_follow(peer):
                    self._send(peer, self._exports.part(peer, message), urgent=False)
            case StatePart():
                self._surrender.received(peer, message)

    def goes_on(self, now_ms: int) -> bool:
        """Is this node still going over to others, as time passes?"""
        return self._surrender.goes_on(now_ms)

    def seek(self, now_ms: int, own: Presence) -> None:
        """Forks: a node that does not serve joins those who do; the arbiter tells the others who has won."""
        member = self._member
        if not self._serving.running and (winner := healing.whom_to_join(self._to_join())):
            self._surrender.begin(winner)
            return
        if not member.consensus.forks and not any(presence.forked for presence in self._presences.values()):
            self._forked_since_ms, self._winner = None, ""
            return
        if self._forked_since_ms is None:
            self._forked_since_ms = now_ms
        known = {**self._presences, member.name: own}
        lasting = now_ms - self._forked_since_ms >= HEAL_AFTER_MS
        voters = member.consensus.members.voters
        if lasting and (self._handling.heals(voters) or healing.nobody_goes_on(voters, known)):
            self._judge(known)

    def _judge(self, known: Mapping[str, Presence]) -> None:
        member = self._member
        for name, word in healing.verdicts(member.name, member.linked, known, self._winner):
            self._winner = word.winner
            if name == member.name:
                self._surrender.begin(word.winner)
            else:
                self._send(name, word, urgent=True)

    def _give_up(self, winner: State, done: Callable[[], None]) -> None:
        def stopped() -> None:
            self._serving.stopped()
            done()

        self._serving.give_way(lambda: self._application.give_up(winner, stopped))
