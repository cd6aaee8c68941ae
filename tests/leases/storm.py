"""A job that works through a queue under a lease, on whole brokers that have no luck (`mirrored.storm`).

The job takes, reads, settles, and asks anyone again whenever it likes; its answers come late, twice or never.
What must hold:

    the same      a take gives the same messages however often and whomever it is asked
    whole         every message of a take can be read
    once          no message is settled in two takes
    all           what was confirmed to a publisher has been settled at the end
"""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.errors import AmqpError
from mirrormq.ranges import questions
from mirrormq.ranges.batch import Batch
from mirrormq.ranges.inquiry import Inquiry, Reply
from mirrormq.ranges.stretches import Stretch, count_of, unpack
from mirrormq.wire import methods
from mirrormq.wire.fields import Table, decode_table, encode_table
from tests.mirrored.cluster import MirroredClient
from tests.mirrored.storm import Person, Storm

STEPS = 700


class Publisher(Person):
    """A client that only publishes."""

    def __init__(self, storm: Storm, name: str) -> None:
        self.storm = storm
        self.bodies: dict[int, bytes] = {}
        MirroredClient.__init__(self, storm.cluster, storm.cluster[name])
        self.send(methods.encode_confirm_select())


class Job:
    """Takes, reads and settles, one take after the other."""

    def __init__(self, storm: LeaseStorm) -> None:
        self._storm = storm
        self.number = 1
        self.phase = questions.TAKE
        self._stretches: list[Stretch] = []
        self._at = 0
        self._rows: list[tuple[int, bytes]] = []
        self.settled: list[tuple[int, bytes]] = []
        self.emptied = False

    def ask(self, name: str) -> None:
        """Ask a node what comes next, or once more."""
        queue = self._storm.cluster[name].broker.vhosts["/"].queues["q"]
        turn = (self.number, self.phase, self._at)
        headers, body, then = self._question()

        def answered(given: Reply) -> None:
            if turn == (self.number, self.phase, self._at):
                then(given)

        def refused(error: AmqpError) -> None:
            stale = turn != (self.number, self.phase, self._at)
            assert stale or (error.code == 404 and "no lease" not in error.explanation), error.explanation

        queue.inquire(Inquiry(encode_table(headers), body, "guest"), answered, refused, self)

    def _question(self) -> tuple[Table, bytes, Callable[[Reply], None]]:
        if self.phase == questions.TAKE:
            count = 1 + self.number % 5
            return questions.take("q", "job", self.number, count), b"", self._taken
        if self.phase == questions.READ:
            to = sum(self._stretches[-1])
            return questions.read("q", self._at, to, 60), self._packed, self._read
        return questions.settle("q", "job", number=self.number), b"", self._settled

    def _taken(self, given: Reply) -> None:
        self.emptied = not given.body
        if given.body:
            self._packed = given.body
            self._stretches = unpack(given.body)
            self._at, self._rows = self._stretches[0][0], []
            self.phase = questions.READ

    def _read(self, given: Reply) -> None:
        part = questions.read_part(decode_table(given.headers, 0)[0])
        self._rows += [(row.sequence, row.body) for row in Batch(given.body)]
        if part.next < part.to:
            assert part.next > self._at
            self._at = part.next
            return
        assert len(self._rows) == count_of(self._stretches), "a message of the take is gone"
        self.phase = "again"

    def check_again(self, name: str) -> None:
        """Whoever is asked gives the same messages."""
        queue, number, packed = (
            self._storm.cluster[name].broker.vhosts["/"].queues["q"],
            self.number,
            self._packed,
        )

        def answered(given: Reply) -> None:
            if (self.number, self.phase) == (number, "again"):
                assert given.body == packed, "another answer to the same take"
                self.phase = questions.SETTLE

        inquiry = Inquiry(encode_table(questions.take("q", "job", number, 99)), b"", "guest")
        queue.inquire(inquiry, answered, lambda error: None, self)

    def _settled(self, given: Reply) -> None:
        self.settled += self._rows
        self.number += 1
        self.phase = questions.TAKE


class LeaseStorm(Storm):
    """The storm, with a job in place of consumers."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        for person in self.people:
            person.lose()
        self.cluster.settle()
        self.people = [Publisher(self, name) for name in "abc"]
        self.job = Job(self)

    def step(self) -> None:
        if self.choice.random() < 0.15:
            self.work()
        else:
            super().step()
        for person in self.people[3:]:
            if not isinstance(person, Publisher) and person in person.node.clients:
                person.lose()
                self.people.remove(person)
                self.people.append(Publisher(self, person.node.name))

    def work(self) -> None:
        able = [member.name for member in self.cluster.living() if self.cluster.follows(member)]
        if able:
            name = self.choice.choice(able)
            if self.job.phase == "again":
                self.job.check_again(name)
            else:
                self.job.ask(name)

    def finish(self) -> None:
        """Everybody comes back, and the job does the rest."""
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
    """One history."""
    storm = LeaseStorm(seed)
    for _ in range(STEPS):
        storm.step()
    storm.finish()
    return storm
