"""Apply barrier: which callbacks wait for which nodes, and for how long."""

from __future__ import annotations

from mirrormq.cluster.apply_barrier import REPLY_TIMEOUT_TICKS, ApplyBarrier
from mirrormq.cluster.cluster_messages import ClusterMessage, Reach


class Scene:
    """Barrier of one node with its peers; records its messages and the callbacks that ran."""

    def __init__(self, *peers: str) -> None:
        self.peers = set(peers)
        self.said: list[tuple[str, ClusterMessage]] = []
        self.reported: list[int] = []
        self.applied_on_all = ApplyBarrier(self._send, lambda: sorted(self.peers))

    def _send(self, peer: str, message: ClusterMessage, urgent: bool) -> None:
        self.said.append((peer, message))

    def wait(self, mark: int) -> None:
        self.applied_on_all.wait(mark, lambda: self.reported.append(mark))

    def work(self, applied: int = 0) -> list[tuple[str, ClusterMessage]]:
        for callback in self.applied_on_all.work(applied):
            callback()
        said, self.said = self.said, []
        return said

    def reached(self, peer: str, index: int) -> None:
        self.applied_on_all.receive(peer, Reach(index, is_request=False))


def test_waiting_calls_are_answered_when_all_nodes_have_applied_the_entry() -> None:
    scene = Scene("b", "c")
    scene.wait(7)
    assert scene.work() == [("b", Reach(7, is_request=True)), ("c", Reach(7, is_request=True))]
    scene.reached("b", 9)
    assert scene.work() == [] and scene.reported == []
    scene.reached("c", 7)
    scene.work()
    assert scene.reported == [7]


def test_one_question_is_under_way_and_it_is_about_the_latest() -> None:
    scene = Scene("b")
    scene.wait(1)
    assert scene.work() == [("b", Reach(1, is_request=True))]
    scene.wait(2)
    scene.wait(3)
    assert scene.work() == []
    scene.reached("b", 1)
    assert scene.work() == [("b", Reach(3, is_request=True))] and scene.reported == [1]
    scene.reached("b", 3)
    scene.work()
    assert scene.reported == [1, 2, 3]


def test_a_node_whose_applied_index_is_known_gets_no_request() -> None:
    scene = Scene("b")
    scene.reached("b", 5)
    scene.wait(4)
    assert scene.work() == [] and scene.reported == [4]


def test_a_question_is_answered_when_it_is_so() -> None:
    scene = Scene("b")
    scene.applied_on_all.receive("b", Reach(3, is_request=True))
    assert scene.work(applied=2) == []
    assert scene.work(applied=4) == [("b", Reach(4, is_request=False))]
    assert scene.work(applied=5) == []


def test_a_node_that_is_gone_is_not_waited_for_and_forgets_what_it_was_asked() -> None:
    scene = Scene("b")
    scene.wait(1)
    scene.work()
    scene.peers.clear()
    scene.applied_on_all.down("b")
    scene.work()
    assert scene.reported == [1]
    scene.peers.add("b")
    scene.wait(2)
    assert scene.work() == [("b", Reach(2, is_request=True))]


def test_a_node_that_says_nothing_is_not_waited_for_long() -> None:
    scene = Scene("b")
    scene.wait(1)
    scene.work()
    for _ in range(REPLY_TIMEOUT_TICKS):
        assert scene.reported == []
        scene.applied_on_all.tick()
        scene.work()
    assert scene.reported == [1]
