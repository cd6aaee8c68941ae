"""Run of a migration: makes the duties of the present phase true, twice a second, until a final phase.

Every duty is a comparison of what is with what should be, so the process may be killed anywhere and started
again. Phases change by commands of other processes (through the directory) and by conditions that hold here.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Collection

import msgspec

from mirrormq.bridges.link_status import LinkState
from mirrormq.migration.migration_records import Plan, QueueStatus, Status, eta_s
from mirrormq.migration.move_ledger import QueueKey
from mirrormq.migration.phases import AWAITED, DUTIES, FINAL, Direction, Phase, Place, Step, goal
from mirrormq.migration.proxy_steps import ProxyReplyError, sessions_elsewhere, steps
from mirrormq.migration_io.arrivals import Arrivals
from mirrormq.migration_io.broker_api import BrokerApi, MigrationError
from mirrormq.migration_io.definition_follower import DefinitionFollower
from mirrormq.migration_io.haproxy_socket import HaproxySocket
from mirrormq.migration_io.ledger_file import LedgerFile
from mirrormq.migration_io.migration_directory import MigrationDirectory
from mirrormq.migration_io.moving_link import PRODUCT, MovingLinks
from mirrormq.migration_io.queue_counts import Counts, count

TURN_S = 0.5
FOLLOW_INTERVAL_S = 2.0
"""Interval of two polls of the old cluster's definitions."""

QUIET_S = 2.0
QUIET_WITH_CLIENTS_S = 6.0
"""Time that a condition must hold. With clients on the source cluster, its statistics of unacknowledged
messages count, and RabbitMQ updates these every 5 s."""

ARRIVALS_INTERVAL_S = 6 * 3600.0
"""Interval of two reads of the publish ids, which the new cluster keeps for a week: a command that was not
running at one of them still reads the next."""

RATE_WINDOW_S = 10.0
CLIENTS_SHOWN = 5

Report = Callable[[Status], None]


class MigrationRun:
    """Run of one process."""

    def __init__(self, directory: MigrationDirectory, plan: Plan, report: Report) -> None:
        self._directory, self._plan, self._report = directory, plan, report
        self.old, self.new = BrokerApi("old", plan.old_api), BrokerApi("new", plan.new_api)
        self._follower = DefinitionFollower(directory, plan, self.old, self.new)
        self._proxy = HaproxySocket(plan.proxy.socket) if plan.proxy is not None else None
        self._ledger_file = LedgerFile(directory.path / "moved.log")
        self._links = MovingLinks(
            plan.old_amqp, plan.new_amqp, self._ledger_file, f"{plan.id}-{secrets.token_hex(4)}"
        )
        self._next_poll_s = self._next_count_s = 0.0
        self._quiet_since_s: float | None = None
        self._rates: deque[tuple[float, int]] = deque()
        self._counts: dict[QueueKey, Counts] = {}
        self._waiting = self._error = ""
        self._polled_phase: Phase | None = None
        self._arrivals = Arrivals(directory, plan)
        self._next_arrivals_s = 0.0

    async def run(self) -> Phase:
        """Work until a final phase; return it."""
        try:
            while (phase := self._directory.state().phase) not in FINAL:
                await self._turn(phase)
                await asyncio.sleep(TURN_S)
            await self._turn(phase)
        finally:
            try:
                await self._links.follow(Direction.NONE, ())
            finally:
                self._ledger_file.close()
        return phase

    async def _turn(self, phase: Phase) -> None:
        """Fulfil the duties of a phase, and leave it if its condition holds."""
        try:
            if phase is Phase.PLANNED:
                await asyncio.to_thread(self._follower.remember_before)
                phase = self._directory.advance(Step.RUN)
            await self._fulfil(phase)
            step = AWAITED.get(phase)
            if step is not None and await self._is_quiet(phase, step):
                # The command `rollback` may have changed the phase meanwhile.
                if self._directory.state().phase is phase:
                    self._directory.advance(step)
                self._quiet_since_s = None
            self._error = self._ledger_file.problem
        except (MigrationError, ProxyReplyError) as error:
            # A broker or a proxy that restarts, for example: the next turn tries again.
            self._error = str(error)
            self._quiet_since_s = None
        self._write_status(phase)

    # -- duties -----------------------------------------------------------------------------------

    async def _fulfil(self, phase: Phase) -> None:
        duties = DUTIES[phase]
        if phase is not self._polled_phase:
            self._polled_phase, self._next_poll_s = phase, 0.0
        if (duties.follows or duties.takes_back) and time.monotonic() >= self._next_poll_s:
            poll = self._follower.follow if duties.follows else self._follower.take_back
            await asyncio.to_thread(poll)
            self._next_poll_s = time.monotonic() + FOLLOW_INTERVAL_S
        queues: list[QueueKey] = []
        if phase is Phase.RETURNING:
            queues = await asyncio.to_thread(self._follower.returning_queues)
        elif phase not in FINAL:
            queues = await asyncio.to_thread(self._follower.queues)
        # Links that must end do so before clients of the other cluster are let in.
        await self._links.follow(duties.links, queues)
        await asyncio.to_thread(self._place, duties.consumers, duties.producers)
        if phase is Phase.UNDOING:
            await asyncio.to_thread(self._follower.undo)
        if duties.links is not Direction.NONE and phase not in AWAITED:
            await self._count_for_status(duties.links, queues)
        if duties.links is Direction.FORWARD and phase not in AWAITED:
            await self._record_arrivals(queues)

    async def _record_arrivals(self, queues: list[QueueKey]) -> None:
        if time.monotonic() >= self._next_arrivals_s:
            await asyncio.to_thread(self._arrivals.record, queues)
            self._next_arrivals_s = time.monotonic() + ARRIVALS_INTERVAL_S

    async def _count_for_status(self, direction: Direction, queues: list[QueueKey]) -> None:
        if time.monotonic() >= self._next_count_s:
            title, uris = ("old", self._plan.old_amqp)
            if direction is Direction.BACK:
                title, uris = ("new", self._plan.new_amqp)
            self._counts = await asyncio.to_thread(count, title, uris, queues)
            self._next_count_s = time.monotonic() + FOLLOW_INTERVAL_S

    def _place(self, consumers: Place, producers: Place) -> None:
        if self._proxy is None or self._plan.proxy is None:
            return
        servers = self._proxy.servers()
        # A shared backend follows the producers: both groups are in the same place then.
        for backend, place in (
            (self._plan.proxy.consumers, consumers),
            (self._plan.proxy.producers, producers),
        ):
            if not self._plan.proxy.is_shared or backend is self._plan.proxy.producers:
                for command in steps(backend, place, servers):
                    self._proxy.change(command)

    # -- conditions -------------------------------------------------------------------------------

    async def _is_quiet(self, phase: Phase, step: Step) -> bool:
        """Report whether the condition has held for long enough."""
        self._waiting, needed_s = await asyncio.to_thread(self._obstacle, phase, step)
        now_s = time.monotonic()
        if self._waiting:
            self._quiet_since_s = None
            return False
        if self._quiet_since_s is None:
            self._quiet_since_s = now_s
        return now_s - self._quiet_since_s >= needed_s

    def _obstacle(self, phase: Phase, step: Step) -> tuple[str, float]:
        """Return why the condition does not hold yet, empty if it does, and how long it must hold."""
        if step is Step.REMOVED:
            return "", 0.0
        source_is_new = step is Step.NEW_EMPTY
        title, uris, api = (
            ("new", self._plan.new_amqp, self.new)
            if source_is_new
            else ("old", self._plan.old_amqp, self.old)
        )
        queues = self._follower.returning_queues() if source_is_new else self._follower.queues()
        self._counts = count(title, uris, queues)
        sessions = self._overlooked_sessions()
        if sessions:
            return f"{sessions} sessions have not left HAProxy's servers", 0.0
        if self._proxy is None and DUTIES[phase].without_clients and (left := self._clients_left()):
            return left, 0.0
        clients = self._clients(api)
        quiet_s = QUIET_WITH_CLIENTS_S if clients else QUIET_S
        if step is Step.CONSUMERS_GONE:
            return self._consumers(api), quiet_s
        return self._messages(title, api, clients), quiet_s

    def _overlooked_sessions(self) -> int:
        if self._proxy is None or self._plan.proxy is None:
            return 0
        duties = DUTIES[self._directory.state().phase]
        servers = self._proxy.servers()
        proxy = self._plan.proxy
        producers = sessions_elsewhere(proxy.producers, duties.producers, servers)
        return (
            producers
            if proxy.is_shared
            else producers + sessions_elsewhere(proxy.consumers, duties.consumers, servers)
        )

    def _clients(self, api: BrokerApi, vhosts: Collection[str] | None = None) -> list[str]:
        """Return the names of the clients that are not the migration's own; None: of all vhosts."""
        columns = "name,user_provided_name,client_properties.product,vhost"
        return [
            str(row.get("user_provided_name") or row.get("name"))
            for row in api.get(f"connections?columns={columns}")
            if (row.get("client_properties") or {}).get("product") != PRODUCT
            and (vhosts is None or row.get("vhost") in vhosts)
        ]

    def _clients_left(self) -> str:
        vhosts = self._follower.vhosts()
        for api in (self.new, self.old):
            if clients := self._clients(api, vhosts):
                shown = ", ".join(clients[:CLIENTS_SHOWN])
                return (
                    f"{len(clients)} clients are still connected to the {api.title} cluster: {shown}; stop "
                    "all clients until the rollback has ended, so that messages return in order"
                )
        return ""

    def _consumers(self, api: BrokerApi) -> str:
        left = {key: each.consumers for key, each in self._counts.items() if each.consumers}
        if not left:
            return ""
        vhost, name = min(left)
        return (
            f"{sum(left.values())} consumers are still on the {api.title} cluster, for example of queue "
            f"'{name}' in vhost '{vhost}'"
        )

    def _messages(self, title: str, api: BrokerApi, clients: list[str]) -> str:
        ready = sum(each.ready for each in self._counts.values())
        if ready:
            return f"{ready} messages are still on the {title} cluster"
        down = [link for link in self._links.links.values() if link.link.transfer is None]
        if down:
            reason = down[0].link.status().reason or "starting"
            return f"the link of queue '{down[0].queue[1]}' does not work: {reason}"
        if not self._links.are_idle:
            return "messages are under way"
        if clients:
            unacked = sum(
                int(row.get("messages_unacknowledged") or 0)
                for row in api.get("queues?columns=vhost,name,messages_unacknowledged")
                if (row["vhost"], row["name"]) in self._counts
            )
            if unacked:
                shown = ", ".join(clients[:CLIENTS_SHOWN])
                return (
                    f"{unacked} messages are unacknowledged on the {title} cluster, by clients among {shown}"
                )
        return ""

    # -- status -----------------------------------------------------------------------------------

    def _write_status(self, phase: Phase) -> None:
        ledger, direction = self._ledger_file.ledger, self._links.direction
        listed = []
        for queue, link in sorted(self._links.links.items()):
            status = link.link.status()
            counts = self._counts.get(queue)
            left = counts.ready if counts is not None else 0
            moved = ledger.of(direction, queue).count
            listed.append(QueueStatus(*queue, status.state, status.reason, left, moved))
        moved = sum(each.moved for each in listed)
        rate = self._rate(moved)
        left = sum(each.left for each in listed)
        problems = list(self._follower.problems.values())
        broken = next((each.reason for each in listed if each.state == LinkState.TERMINATED.value), "")
        now_phase = self._directory.state().phase
        if now_phase is not phase or phase not in AWAITED:
            self._waiting = ""
        status_now = Status(
            now_phase, goal(now_phase), time.time(), self._waiting, left, moved, round(rate, 1),
            eta_s(left, rate), listed, problems, self._follower.passwords, self._error or broken,
            now_phase is phase and not self._error,
        )  # fmt: skip
        try:
            self._directory.write("status.json", status_now)
        except MigrationError as error:
            status_now = msgspec.structs.replace(status_now, error=str(error), fulfilled=False)
        self._report(status_now)

    def _rate(self, moved: int) -> float:
        now_s = time.monotonic()
        if self._rates and moved < self._rates[-1][1]:
            self._rates.clear()  # The direction has changed.
        self._rates.append((now_s, moved))
        while now_s - self._rates[0][0] > RATE_WINDOW_S:
            self._rates.popleft()
        first_s, first = self._rates[0]
        return (moved - first) / (now_s - first_s) if now_s > first_s else 0.0
