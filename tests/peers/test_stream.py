"""Streams: every item once and in order, over any number of links, and nothing after the end."""

from __future__ import annotations

import random

import pytest

from mirrormq.peers.peer_limits import DEFAULT_STREAM_LIMITS
from mirrormq.peers.stream_frames import StreamFrame, StreamHello
from mirrormq.peers.streams import Streams
from mirrormq.remote.remote_messages import Item, RemoteMessage, Touch


class End:
    """One node's streams and what it has heard."""

    def __init__(self, name: str, incarnation: int = 1) -> None:
        self.name = name
        self.out: list[RemoteMessage] = []
        self.heard: list[int] = []
        self.ended: list[tuple[str, int]] = []
        self.streams = Streams[Item](
            incarnation,
            lambda peer, message: self.out.append(message),
            lambda s: self.ended.append((s.peer, s.incarnation)),
        )

    def receive(self, peer: str, message: RemoteMessage) -> None:
        if isinstance(message, StreamHello):
            self.streams.hello(peer, message)
        elif (received := self.streams.receive(peer, message)) is not None:
            self.heard += [_number(item) for item in received[1]]


def _number(item: Item) -> int:
    assert isinstance(item, Touch)
    return item.queue_id


def item(number: int) -> Touch:
    return Touch(number, 1)


def carry(one: End, other: End) -> None:
    """Everything that is on the way arrives."""
    while one.out or other.out:
        for source, target in ((one, other), (other, one)):
            sent, source.out[:] = list(source.out), []
            for message in sent:
                target.receive(source.name, message)


def linked(a: End, b: End) -> None:
    a.streams.up("b")
    b.streams.up("a")
    carry(a, b)


def test_items_travel_in_one_frame_and_late_ones_with_the_last() -> None:
    a, b = End("a"), End("b")
    linked(a, b)
    stream = a.streams.to("b", 1)
    stream.put(item(1))
    stream.put_late(item(3))
    stream.put(item(2))
    stream.flush()
    assert [len(frame.items) for frame in a.out if isinstance(frame, StreamFrame)] == [2]
    stream.flush(late=True)
    carry(a, b)
    assert b.heard == [1, 2, 3]


def test_nothing_is_sent_before_the_peer_has_identified_itself() -> None:
    a, b = End("a"), End("b")
    stream = a.streams.to("b", 1)
    stream.put(item(1))
    stream.flush()
    a.streams.up("b")
    stream.flush()
    assert a.out == [StreamHello(1, 0, 0)] or a.out == [StreamHello(1, 1, 0)]
    b.streams.up("a")
    carry(a, b)
    stream.flush()
    carry(a, b)
    assert b.heard == [1]


def test_a_later_listener_gets_the_greeting_again() -> None:
    a, b = End("a"), End("b")
    a.streams.to("b", 1).put(item(1))
    a.streams.up("b")
    a.out.clear()
    b.streams.up("a")
    carry(a, b)
    a.streams.to("b", 1).flush()
    b.streams.to("a", 1).put(item(2))
    b.streams.to("a", 1).flush()
    carry(a, b)
    assert (b.heard, a.heard) == ([1], [2])


def test_missing_frames_are_requested() -> None:
    a, b = End("a"), End("b")
    linked(a, b)
    stream = a.streams.to("b", 1)
    for number in range(1, 6):
        stream.put(item(number))
        stream.flush()
    del a.out[1]
    carry(a, b)
    assert b.heard == [1, 2, 3, 4, 5]


def test_another_incarnation_receives_nothing() -> None:
    a, b = End("a"), End("b", incarnation=2)
    meant = a.streams.to("b", 1)
    meant.put(item(1))
    linked(a, b)
    meant.flush()
    carry(a, b)
    assert b.heard == [] and meant.over and a.ended == [("b", 1)]
    a.streams.to("b", 2).put(item(2))
    a.streams.to("b", 2).flush()
    carry(a, b)
    assert b.heard == [2]


def test_messages_of_an_ended_incarnation_are_ignored() -> None:
    a, b = End("a"), End("b")
    linked(a, b)
    a.streams.lost("b", 1)
    b.streams.to("a", 1).put(item(1))
    b.streams.to("a", 1).flush()
    linked(a, b)
    assert a.heard == [] and a.ended == [("b", 1)]
    assert a.streams.to("b", 1).over


def test_a_new_node_begins_with_incarnation_one() -> None:
    a, b = End("a"), End("b")
    linked(a, b)
    for number in range(5):
        b.streams.to("a", 1).put(item(number))
        b.streams.to("a", 1).flush()
    carry(a, b)
    again = End("a", incarnation=2)
    b.streams.down("a")
    linked(again, b)
    b.streams.to("a", 2).put(item(9))
    b.streams.to("a", 2).flush()
    carry(again, b)
    assert again.heard == [9]


def test_a_publisher_that_waits_for_room_is_notified_once_there_is_some() -> None:
    a, b = End("a"), End("b")
    linked(a, b)
    stream = a.streams.to("b", 1)
    reported: list[int] = []
    resume = lambda: reported.append(1)  # noqa: E731
    while stream.writable:
        stream.put(item(1), 1024 * 1024)
        stream.flush()
    stream.when_writable(resume)
    stream.when_writable(resume)
    for message in a.out:
        b.receive("a", message)
    a.out.clear()
    assert reported == [] and not stream.writable
    b.streams.to("a", 1).flush(late=True)
    carry(a, b)
    assert reported == [1] and stream.writable


def test_a_receiver_reports_after_many_frames() -> None:
    a, b = End("a"), End("b")
    linked(a, b)
    stream = a.streams.to("b", 1)
    for number in range(DEFAULT_STREAM_LIMITS.frames_unreported_max + 1):
        stream.put(item(number))
        stream.flush()
    for message in a.out:
        b.receive("a", message)
    assert b.out == [StreamFrame(0, DEFAULT_STREAM_LIMITS.frames_unreported_max + 1, [])]


def test_a_large_frame_leaves_at_once() -> None:
    a, b = End("a"), End("b")
    linked(a, b)
    a.streams.to("b", 1).put(item(1), DEFAULT_STREAM_LIMITS.frame_bytes + 1)
    assert len(a.out) == 1


@pytest.mark.parametrize("seed", range(30))
def test_everything_arrives_once_and_in_order_over_links_that_are_cut(seed: int) -> None:
    chance = random.Random(seed)
    a, b = End("a"), End("b")
    linked(a, b)
    sent = {"a": 0, "b": 0}
    for _ in range(400):
        source, target = (a, b) if chance.random() < 0.5 else (b, a)
        stream = source.streams.to(target.name, 1)
        what = chance.random()
        if what < 0.4:
            sent[source.name] += 1
            (stream.put if chance.random() < 0.7 else stream.put_late)(item(sent[source.name]))
            stream.flush(late=True)
        elif what < 0.6:
            stream.flush(late=chance.random() < 0.5)
        elif what < 0.95:
            for _ in range(min(len(source.out), chance.randint(1, 4))):
                target.receive(source.name, source.out.pop(0))
        else:
            a.streams.down("b")
            b.streams.down("a")
            a.out.clear()
            b.out.clear()
            a.streams.up("b")
            b.streams.up("a")
    carry(a, b)
    for end, other in ((a, b), (b, a)):
        end.streams.to(other.name, 1).flush(late=True)
    carry(a, b)
    assert b.heard == list(range(1, sent["a"] + 1))
    assert a.heard == list(range(1, sent["b"] + 1))
