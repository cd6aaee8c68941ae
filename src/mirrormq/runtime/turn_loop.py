"""Turn loop of an application: ends a turn after the input of its sockets.

A turn is everything between two waits of the event loop. Sockets pass their bytes to connections. Then the
end of the turn lets the broker deliver, commit and confirm, and writes to the sockets. The loop itself calls
fsync: in a helper thread its tail latency is worse by two orders of magnitude (decision 0005).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from mirrormq import limits
from mirrormq.broker.broker import Broker
from mirrormq.connections.connection import Connection
from mirrormq.runtime.client_sockets import ClientSockets
from mirrormq.storage.disk_stats import DiskStats
from mirrormq.storage.journal import Journal

SECONDS_KEPT = 60
"""Longest window of the metric `mirrormq_turn_longest_seconds`."""


class TurnTimes:
    """Longest turn of each of the last seconds that had a turn: the longest time that one client waits for
    the work of others."""

    def __init__(self) -> None:
        self._by_second: deque[tuple[int, float]] = deque(maxlen=SECONDS_KEPT)
        self._second = 0
        self._longest_s = 0.0

    def add(self, ended_s: float, took_s: float) -> None:
        """Record a turn."""
        second = int(ended_s)
        if second != self._second:
            self._by_second.append((self._second, self._longest_s))
            self._second, self._longest_s = second, took_s
        elif took_s > self._longest_s:
            self._longest_s = took_s

    def longest_s(self, now_s: float, window_s: int) -> float:
        """Return the longest turn of the last seconds."""
        seconds = [*self._by_second, (self._second, self._longest_s)]
        return max([took_s for second, took_s in seconds if second > now_s - window_s], default=0.0)


class Timer(Protocol):
    """Timer of the event loop."""

    def cancel(self) -> None: ...


class EventLoop(Protocol):
    """Event loop of asyncio, as far as turns need it."""

    def call_soon(self, callback: Callable[[], None]) -> object: ...
    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer: ...


class TurnHost(Protocol):
    """Application, as its turn loop sees it."""

    def fault(self, connection: Connection | None, error: Exception) -> bool:
        """Contain an unexpected error; return whether the node continues."""

    def flush_links(self) -> None:
        """Write what the turn has sent to other nodes."""

    def write_log_entries(self) -> None:
        """Write the log entries that the broker has collected."""


class TurnLoop:
    """Schedule of turns, and the work at their ends."""

    def __init__(
        self,
        loop: EventLoop,
        now_s: Callable[[], float],
        broker: Broker,
        journal: Journal,
        disk_stats: DiskStats,
        sockets: ClientSockets,
        host: TurnHost,
    ) -> None:
        self._loop = loop
        self._now_s = now_s
        """Present time, in seconds since the Unix epoch."""
        self._call_soon: Callable[[Callable[[], None]], object] = loop.call_soon
        self._broker = broker
        self._journal = journal
        self._sockets = sockets
        self._host = host
        self._log_entries = broker.log_entries
        self.clock = broker.clock
        self.at_end: list[Callable[[], None]] = []
        """Further work for the end of every turn, before the sockets are written."""
        self.over = False
        """The application has stopped; callbacks that still arrive do nothing."""
        self.leaving = False
        """The application is stopping: it writes connection.close to clients and does nothing else."""
        self._disk_stats = disk_stats
        self.times = TurnTimes()
        self._began_s = self._synced_s = 0.0
        self._scheduled = False
        self._clock_read = False
        """Whether the clock was read in this turn: once is enough for all its input."""
        self._input_seen = False
        """Whether a socket has passed bytes to its connection since the last turn."""
        self._postponed = 0
        self._timer: Timer | None = None
        self._timer_ms = 0

    # -- input ------------------------------------------------------------------------------------

    def input_arrived(self) -> None:
        """Begin a turn with input of a client, or continue it; its end follows."""
        self._input_seen = True
        if not self._clock_read:
            self.read_clock()
            self._clock_read = True
        self.end_soon()

    def read_clock(self) -> None:
        """Set the clock of the pure code to the present time."""
        self.clock.now_ms = int(self._now_s() * 1000)

    def end_soon(self) -> None:
        """Schedule the end of the turn, unless it is scheduled already."""
        if not self._scheduled:
            self._scheduled = True
            self._began_s, self._synced_s = perf_counter(), self._disk_stats.sync_s
            self._call_soon(self._end_turn)

    # -- end of a turn ----------------------------------------------------------------------------

    def _end_turn(self) -> None:
        began_s, synced_s = self._began_s, self._synced_s
        self._scheduled = self._clock_read = False
        if self.over:
            return
        broker, sockets = self._broker, self._sockets
        if self.leaving:
            sockets.write(broker.writing)
            return
        try:
            # Sockets are written only after finish_turn: no confirm leaves the node before the fsync that it
            # rests on.
            sent_to_peers = broker.begin_turn()
            if broker.finish_turn(self._commit_now(sent_to_peers)):
                self.end_soon()
            for action in self.at_end:
                action()
            if broker.remote.linked:
                self._host.flush_links()
        except Exception as error:
            if not self._host.fault(None, error):
                return
            self.end_soon()
        sockets.write(broker.writing)
        sockets.wake_rested()
        if sockets.resume():
            self.end_soon()
        if self._log_entries:
            self._host.write_log_entries()
        self._arm_timer()
        ended_s = perf_counter()
        self.times.add(ended_s, ended_s - began_s - (self._disk_stats.sync_s - synced_s))

    def _commit_now(self, sent_to_peers: bool) -> bool:
        """Decide whether to sync the journal in this turn (group commit).

        While publishers keep sending, the node polls the sockets a few more times, so that one fsync
        serves all of them. A publisher that waits for its confirm does not wait for other publishers.
        Messages to other nodes leave before this node waits for its disk, because sockets are written
        between two turns. The other nodes then work during the fsync.
        """
        keep_collecting = (self._input_seen or sent_to_peers) and self._journal.writer.needs_sync
        self._input_seen = False
        if keep_collecting and self._postponed < limits.COMMIT_POSTPONEMENTS:
            self._postponed += 1
            self.end_soon()
            return False
        self._postponed = 0
        return True

    # -- timers -----------------------------------------------------------------------------------

    def _arm_timer(self) -> None:
        due = self.clock.next_ms
        if due is None or (self._timer is not None and self._timer_ms <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due
        self._timer = self._loop.call_later(max(0.0, due / 1000 - self._now_s()), self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        if self.over:
            return
        self.read_clock()
        self.end_soon()
        try:
            self.clock.run_due()
        except Exception as error:
            self._host.fault(None, error)

    def stop(self) -> None:
        """Stop ending turns."""
        self.over = True
        if self._timer is not None:
            self._timer.cancel()
