"""Who waits until all nodes have heard of a change, and for whom nobody waits."""

from __future__ import annotations

from mirrormq.cluster.everywhere import PATIENCE_TICKS, Everywhere
from mirrormq.cluster.messages import ClusterMessage, Reach


class Scene:
    """A node with others; what it says to them, and who has been told."""

    def __init__(self, *peers: str) -> None:
        self.peers = set(peers)
        self.said: list[tuple[str, ClusterMessage]] = []
        self.told: list[int] = []
        self.everywhere = Everywhere(self._send, lambda: sorted(self.peers))

    def _send(self, peer: str, message: ClusterMessage, urgent: bool) -> None:
        self.said.append((peer, message))

    def wait(self, mark: int) -> None:
        self.everywhere.wait(mark, lambda: self.told.append(mark))

    def work(self, applied: int = 0) -> list[tuple[str, ClusterMessage]]:
        for callback in self.everywhere.work(applied):
            callback()
        said, self.said = self.said, []
        return said

    def reached(self, peer: str, index: int) -> None:
        self.everywhere.receive(peer, Reach(index, asking=False))


def test_whoever_waits_is_told_when_all_have_come_that_far() -> None:
    scene = Scene("b", "c")
    scene.wait(7)
    assert scene.work() == [("b", Reach(7, asking=True)), ("c", Reach(7, asking=True))]
    scene.reached("b", 9)
    assert scene.work() == [] and scene.told == []
    scene.reached("c", 7)
    scene.work()
    assert scene.told == [7]


def test_one_question_is_under_way_and_it_is_about_the_latest() -> None:
    scene = Scene("b")
    scene.wait(1)
    assert scene.work() == [("b", Reach(1, asking=True))]
    scene.wait(2)
    scene.wait(3)
    assert scene.work() == []
    scene.reached("b", 1)
    assert scene.work() == [("b", Reach(3, asking=True))] and scene.told == [1]
    scene.reached("b", 3)
    scene.work()
    assert scene.told == [1, 2, 3]


def test_what_is_known_already_is_not_asked() -> None:
    scene = Scene("b")
    scene.reached("b", 5)
    scene.wait(4)
    assert scene.work() == [] and scene.told == [4]


def test_a_question_is_answered_when_it_is_so() -> None:
    scene = Scene("b")
    scene.everywhere.receive("b", Reach(3, asking=True))
    assert scene.work(applied=2) == []
    assert scene.work(applied=4) == [("b", Reach(4, asking=False))]
    assert scene.work(applied=5) == []


def test_a_node_that_is_gone_is_not_waited_for_and_forgets_what_it_was_asked() -> None:
    scene = Scene("b")
    scene.wait(1)
    scene.work()
    scene.peers.clear()
    scene.everywhere.down("b")
    scene.work()
    assert scene.told == [1]
    scene.peers.add("b")
    scene.wait(2)
    assert scene.work() == [("b", Reach(2, asking=True))]


def test_a_node_that_says_nothing_is_not_waited_for_long() -> None:
    scene = Scene("b")
    scene.wait(1)
    scene.work()
    for _ in range(PATIENCE_TICKS):
        assert scene.told == []
        scene.everywhere.tick()
        scene.work()
    assert scene.told == [1]
