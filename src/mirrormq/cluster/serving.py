"""May this node's application run, and in which life? One road for every start and every stop.

    IDLE ──claim──▶ CLAIMING ──agreed──▶ RUNNING ──▶ LEAVING ──▶ STOPPING ──▶ IDLE
                                            └──────────────────────▲

A life is *claimed* in the metadata before it begins: the node drops the queues that did not survive its
last one (and, if nobody else runs, all that does not survive the end of the whole cluster), and writes that
it runs, with a life one higher than any before. Only when that has been agreed
upon does it serve clients. So nobody ever deals with a life that the cluster does not know of.

A life ends because the operator wants it to (LEAVING: its masters are handed over first), because the others
have given the node up as lost, or because the partition mode says so. Then, unless the operator stopped it,
the node waits until it may run again, and claims its next life.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

import msgspec

from mirrormq.cluster.member import Member
from mirrormq.cluster.moves import drain, still_to_leave
from mirrormq.cluster.partitions import Handling, may_start
from mirrormq.metadata import commands as c
from mirrormq.metadata.records import Node
from mirrormq.replication.census import Census

LEAVING_MS = 10_000
"""How long a node that stops waits for others to take its masters: what RabbitMQ gives a single queue."""

LAST_WORDS_MS = 100
"""How long it stays after that, for what it has to tell the new masters: what its consumers had of them. A
life that is over is not listened to any more."""

STOPPED_BY_OPERATOR = "the node is stopped"
TOO_FEW = "the node sees too few of the others"


class Application(Protocol):
    """What serves clients."""

    def start(self, life: int) -> None:
        """Begin to serve."""

    def stop(self, reason: str) -> None:
        """Close clients and queues, at once; `Serving.stopped` is called when that is done."""


class Phase(Enum):
    """Where the application is."""

    IDLE = "idle"
    CLAIMING = "claiming"
    RUNNING = "running"
    LEAVING = "leaving"
    STOPPING = "stopping"


class Serving:
    """One node's application, through all of its lives."""

    def __init__(self, member: Member, handling: Handling, application: Application, census: Census) -> None:
        self.handling = handling
        self.phase = Phase.IDLE
        self.life = 0
        """The present life, or the last one."""
        self.wanted = False
        self.held_back: Callable[[], str] = str
        """Why it must not start although it could; empty: it may."""
        self.idle: Callable[[], dict[str, int]] = dict
        """The other nodes that say themselves that they do not serve, and their last lives."""
        self.left_behind: Callable[[], str] = str
        """Why it cannot learn what the others agree on, although it sees enough of them; empty: it can."""
        self._member = member
        self._application = application
        self._census = census
        self._leave_by_ms = 0
        self._said_goodbye = False
        self._free_since_ms: int | None = None
        self._proceed: Callable[[], None] | None = None

    # -- questions ------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Are clients served?"""
        return self.phase in (Phase.RUNNING, Phase.LEAVING)

    @property
    def last_life(self) -> int:
        """The present life, or the last one that this node can know of, although another process lived it."""
        record = self._record
        return max(self.life, record.life if record is not None else 0)

    @property
    def _start(self) -> int:
        return self._member.consensus.durable_state.start

    @property
    def _record(self) -> Node | None:
        return self._member.metadata.state.nodes.get(self._member.name)

    def hindrance(self) -> str:
        """What it waits for before it may start; empty if nothing."""
        member = self._member
        if why := self.held_back():
            return why
        if not member.joined:
            return "it belongs to no cluster yet"
        if not self._may_go_on():
            return "it sees too few of the others"
        if member.leader is None:
            return "nobody leads the cluster"
        running = [node.name for node in member.metadata.state.nodes.values() if node.running]
        if not may_start(member.name, running, member.linked):
            unseen = sorted(set(running) - member.linked - {member.name})
            return f"it does not see {', '.join(unseen)}"
        return ""

    def _may_go_on(self) -> bool:
        member = self._member
        return self.handling.may_go_on(member.name, member.consensus.members.voters, member.linked)

    def _verdict(self) -> str:
        """Why a life must end; empty if it need not."""
        record = self._record
        if record is None:
            return "the node was taken out of its cluster"
        if (record.life, record.start) != (self.life, self._start) or not record.running:
            return "the other nodes gave this one up as lost"
        if not self._may_go_on():
            return TOO_FEW
        return self.left_behind()

    # -- what happens ---------------------------------------------------------------------------

    def want(self, wanted: bool, now_ms: int) -> None:
        """The operator starts or stops the application."""
        self.wanted = wanted
        if not wanted and self.phase is Phase.RUNNING:
            self._leave(now_ms)
        self.look(now_ms)

    def look(self, now_ms: int) -> None:
        """Something has changed, or time has passed."""
        self._give_way_now()
        if self.running:
            if verdict := self._verdict():
                self._stop(verdict if self.wanted else STOPPED_BY_OPERATOR)
            elif self.phase is Phase.LEAVING:
                self._go_if_free(now_ms)
        elif self.phase is Phase.IDLE and self.wanted and not self.hindrance():
            self._claim()

    def stopped(self) -> None:
        """The application has stopped."""
        self.phase = Phase.IDLE

    def give_way(self, proceed: Callable[[], None]) -> None:
        """Let somebody else stop the application, as soon as it is not being stopped anyway; who does so says
        `stopped` in the end."""
        self._proceed = proceed
        self._give_way_now()

    def _give_way_now(self) -> None:
        if self._proceed is not None and self.phase is not Phase.STOPPING:
            proceed, self._proceed = self._proceed, None
            self.phase = Phase.STOPPING
            proceed()

    # -- beginning ------------------------------------------------------------------------------

    def _claim(self) -> None:
        self.phase = Phase.CLAIMING
        life = self.last_life + 1
        member = self._member
        claim = Node(member.name, member.address, life, running=True, start=self._start)
        member.metadata.write(c.DropTransient(member.name, list(self.idle().items())))
        member.metadata.write(c.PutNode(claim), lambda: self._claimed(life))

    def _claimed(self, life: int) -> None:
        if self.phase is not Phase.CLAIMING:
            return
        self.phase, self.life = Phase.IDLE, life
        if self.wanted and not self._verdict() and not self.held_back():
            self.phase = Phase.RUNNING
            self._application.start(life)
        elif not self.wanted:
            self._say_goodbye()

    # -- ending ---------------------------------------------------------------------------------

    def _leave(self, now_ms: int) -> None:
        record = self._record
        self.phase = Phase.LEAVING
        self._leave_by_ms = now_ms + LEAVING_MS
        self._said_goodbye = False
        self._free_since_ms = None
        if record is not None and self._member.leader is not None:
            self._member.metadata.write(drain(record))

    def _go_if_free(self, now_ms: int) -> None:
        """Say goodbye when nobody needs this node any more, or when it has waited long enough. What is
        said is heard by `look`, as any other end of this life."""
        member, record = self._member, self._record
        late_ms = now_ms - self._leave_by_ms
        if late_ms >= 0 and (member.leader is None or late_ms >= LEAVING_MS):
            self._stop(STOPPED_BY_OPERATOR)
            return
        if record is None or member.leader is None or self._said_goodbye:
            return
        if late_ms >= 0 or (record.maintenance and self._has_been_free(now_ms)):
            self._said_goodbye = True
            self._say_goodbye()

    def _say_goodbye(self) -> None:
        record = self._record
        if record is not None:
            gone = msgspec.structs.replace(record, running=False, shutdown=True, maintenance=False)
            self._member.metadata.write(c.PutNode(gone))

    def _has_been_free(self, now_ms: int) -> bool:
        member = self._member
        if any(still_to_leave(member.metadata.state, self._census, member.name)):
            self._free_since_ms = None
        elif self._free_since_ms is None:
            self._free_since_ms = now_ms
        if self._free_since_ms is None:
            return False
        return not member.linked or now_ms - self._free_since_ms >= LAST_WORDS_MS

    def _stop(self, reason: str) -> None:
        self.phase = Phase.STOPPING
        self._application.stop(reason)
