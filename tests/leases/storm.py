"""Job that works through a queue under a lease, on whole brokers with faults (`mirrored.storm`).

The job takes, reads, settles, and repeats requests to any node at any time; its replies come late, twice
or never. These properties must hold:

    the same      a take gives the same messages, however often and on whichever node it is requested
    whole         every message of a take can be read
    once          no message is settled in two takes
    all           every message confirmed to a publisher has been settled at the end
"""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.errors import AmqpError
from mirrormq.ranges import range_protocol
from mirrormq.ranges.range_batch import RangeBatch
from mirrormq.ranges.range_request import RangeReply, RangeRequest
from mirrormq.sequences.spans import Span, count_of, unpack
from mirrormq.wire import methods
from mirrormq.wire.fields import Table, decode_table, encode_table
from tests.mirrored.cluster import MirroredClient
from tests.mirrored.storm import LoadClient, Storm

STEPS = 700


class Publisher(LoadClient):
    """Client that only publishes."""

    def __init__(self, storm: Storm, name: str) -> None:
        self.storm = storm
        self.bodies: dict[int, bytes] = {}
        MirroredClient.__init__(self, storm.cluster, storm.cluster[name])
        self.send(methods.encode_confirm_select())


class Job:
    """Job that takes, reads and settles, one take after the other."""

    def __init__(self, storm: LeaseStorm) -> None:
        self._storm = storm
        self.number = 1
        self.phase = range_protocol.TAKE
        self._spans: list[Span] = []
        self._at = 0
        self._rows: list[tuple[int, bytes]] = []
        self.settled: list[tuple[int, bytes]] = []
        self.emptied = False

    def ask(self, name: str) -> None:
        """Send the next request to a node, or repeat the last one."""
        queue = self._storm.cluster[name].broker.vhosts["/"].queues["q"]
        turn = (self.number, self.phase, self._at)
        headers, body, then = self._question()

        def answered(given: RangeReply) -> None:
            if turn == (self.number, self.phase, self._at):
                then(given)

        def refused(error: AmqpError) -> None:
            stale = turn != (self.number, self.phase, self._at)
            assert stale or (error.code == 404 and "no lease" not in error.explanation), error.explanation

        queue.handle_range_request(
            RangeRequest(encode_table(headers), body, "guest"), answered, refused, self
        )

    def _question(self) -> tuple[Table, bytes, Callable[[RangeReply], None]]:
        if self.phase == range_protocol.TAKE:
            count = 1 + self.number % 5
            return range_protocol.take("q", "job", self.number, count), b"", self._taken
        if self.phase == range_protocol.READ:
            to = sum(self._spans[-1])
            return range_protocol.read("q", self._at, to, 60), self._packed, self._read
        return range_protocol.settle("q", "job", number=self.number), b"", self._settled

    def _taken(self, given: RangeReply) -> None:
        self.emptied = not given.body
        if given.body:
            self._packed = given.body
            self._spans = unpack(given.body)
            self._at, self._rows = self._spans[0][0], []
            self.phase = range_protocol.READ

    def _read(self, given: RangeReply) -> None:
        part = range_protocol.read_part(decode_table(given.headers, 0)[0])
        self._rows += [(row.sequence, row.body) for row in RangeBatch(given.body)]
        if part.next < part.to:
            assert part.next > self._at
            self._at = part.next
            return
        assert len(self._rows) == count_of(self._spans), "a message of the take is gone"
        self.phase = "again"

    def check_again(self, name: str) -> None:
        """Check that any node gives the same messages."""
        queue, number, packed = (
            self._storm.cluster[name].broker.vhosts["/"].queues["q"],
            self.number,
            self._packed,
        )

        def answered(given: RangeReply) -> None:
            if (self.number, self.phase) == (number, "again"):
                assert given.body == packed, "another answer to the same take"
                self.phase = range_protocol.SETTLE

        range_request = RangeRequest(encode_table(range_protocol.take("q", "job", number, 99)), b"", "guest")
        queue.handle_range_request(range_request, answered, lambda error: None, self)

    def _settled(self, given: RangeReply) -> None:
        self.settled += self._rows
        self.number += 1
        self.phase = range_protocol.TAKE


class LeaseStorm(Storm):
    """Storm with a job in place of consumers."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        for load_client in self.load_clients:
            load_client.lose()
        self.cluster.settle()
        self.load_clients = [Publisher(self, name) for name in "abc"]
        self.job = Job(self)

    def step(self) -> None:
        if self.choice.random() < 0.15:
            self.work()
        else:
            super().step()
        for load_client in self.load_clients[3:]:
            if not isinstance(load_client, Publisher) and load_client in load_client.node.clients:
                load_client.lose()
                self.load_clients.remove(load_client)
                self.load_clients.append(Publisher(self, load_client.node.name))

    def work(self) -> None:
        able = [member.name for member in self.cluster.living() if self.cluster.follows(member)]
        if able:
            name = self.choice.choice(able)
            if self.job.phase == "again":
                self.job.check_again(name)
            else:
                self.job.ask(name)

    def finish(self) -> None:
        """Restart all nodes, and let the job complete."""
        self.settle()
        for _ in range(2_000):
            self.work()
            self.cluster.settle()
            if self.job.emptied:
                break
            self.cluster.advance(20)
        assert self.job.emptied, (self.job.number, self.job.phase, self.cluster.counts("q"))
        sequences = [sequence for sequence, _ in self.job.settled]
        assert len(set(sequences)) == len(sequences), "settled twice"
        bodies = [body for _, body in self.job.settled]
        assert len(set(bodies)) == len(bodies) or self.memory_was_lost(), "kept twice"
        lost = (self.confirmed & self.persistent) - set(bodies)
        assert not lost, f"lost: {sorted(lost)}"


def run(seed: int) -> LeaseStorm:
    """Run one history."""
    storm = LeaseStorm(seed)
    for _ in range(STEPS):
        storm.step()
    storm.finish()
    return storm
