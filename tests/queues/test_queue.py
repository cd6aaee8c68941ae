"""Queue: lifetimes, limits, dead letters, idleness, policies on live queues, confirms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrormq.queues.queue_limits import QueueLimits
from mirrormq.queues.queue_settings import QueueSettings
from tests.queues.live import LiveQueue, TestPublisher
from tests.queues.support import body

DLX = QueueSettings(dead_letter_exchange="dlx")


# -- lifetimes ----------------------------------------------------------------------------------


def test_messages_expire_by_themselves_when_their_time_has_come() -> None:
    live = LiveQueue(replace(DLX, message_ttl_ms=100))
    live.publish(2)
    live.turn()
    live.advance(99)
    assert live.dead == []
    live.advance(1)
    assert live.dead == [(b"1", "expired"), (b"2", "expired")]
    assert live.counts == (0, 0)
    assert live.budget.used_bytes == 0


def test_the_shorter_of_the_two_lifetimes_counts() -> None:
    live = LiveQueue(replace(DLX, message_ttl_ms=100))
    live.publish(1, expiration="50")
    live.publish(1, expiration="500")
    live.turn()
    live.advance(50)
    assert live.dead == [(b"1", "expired")]
    live.advance(50)
    assert live.dead == [(b"1", "expired"), (b"2", "expired")]


def test_only_the_head_expires() -> None:
    live = LiveQueue(DLX)
    live.publish(1)
    live.publish(1, expiration="10")
    live.turn()
    live.advance(20)
    assert live.dead == []
    assert live.queue.backing.ready_count == 2
    assert live.queue.take(no_ack=True) is not None
    assert live.dead == [(b"2", "expired")], "it expired when it became the head"


def test_a_head_that_was_taken_uncovers_the_next_lifetime() -> None:
    live = LiveQueue(DLX)
    live.publish(1, expiration="10000")
    live.publish(1, expiration="50")
    live.turn()
    live.queue.take(no_ack=True)
    live.advance(50)
    assert live.dead == [(b"2", "expired")]


def test_messages_that_expired_behind_the_head_are_not_delivered() -> None:
    live = LiveQueue(DLX)
    live.publish(1)
    live.publish(2, expiration="10")
    live.publish(1)
    live.turn()
    live.advance(20)
    consumer = live.subscribe()
    live.turn()
    assert consumer.bodies == [b"1", b"4"]
    assert live.dead == [(b"2", "expired"), (b"3", "expired")]
    assert live.counts == (0, 2)


def test_a_lifetime_of_zero_is_now_or_never() -> None:
    live = LiveQueue(replace(DLX, message_ttl_ms=0))
    live.publish(1)
    live.turn()
    assert live.dead == [(b"1", "expired")]
    consumer = live.subscribe()
    live.publish(1)
    live.turn()
    assert consumer.bodies == [b"2"]


def test_a_message_given_back_after_its_time_expires() -> None:
    live = LiveQueue(replace(DLX, message_ttl_ms=100))
    consumer = live.subscribe(capacity=1)
    live.publish(1)
    live.turn()
    live.advance(200)
    assert live.dead == [], "consumers may keep what they have"
    live.queue.unsubscribe(consumer)
    live.requeue(consumer, 1)
    live.turn()
    assert live.dead == [(b"1", "expired")]


# -- limits -------------------------------------------------------------------------------------


def test_drop_head_keeps_the_newest() -> None:
    live = LiveQueue(replace(DLX, max_length=2))
    live.publish(5)
    assert live.dead == [(b"1", "maxlen"), (b"2", "maxlen"), (b"3", "maxlen")]
    assert live.drain() == [b"4", b"5"]
    assert live.budget.used_bytes == 0


def test_drop_head_counts_bytes_and_drops_what_can_never_fit() -> None:
    live = LiveQueue(replace(DLX, max_length_bytes=10))
    live.publish(3, size=4)
    assert live.queue.backing.ready_bytes == 8
    live.publish(1, size=11)
    assert live.counts == (0, 0)
    assert len(live.dead) == 4


def test_consumers_come_before_the_limit() -> None:
    live = LiveQueue(replace(DLX, max_length=1))
    consumer = live.subscribe()
    live.publish(5)
    assert consumer.bodies == [b"1", b"2", b"3", b"4", b"5"]
    assert live.dead == []


def test_consumers_come_before_the_limit_with_large_messages_too() -> None:
    live = LiveQueue(replace(DLX, max_length=1), limits=QueueLimits(delivery_batch_bytes=1_000))
    consumer = live.subscribe()
    live.publish(5, size=900)
    live.turn()
    assert len(consumer.bodies) == 5
    assert live.dead == []


def test_unacknowledged_messages_do_not_count() -> None:
    live = LiveQueue(replace(DLX, max_length=2))
    consumer = live.subscribe(capacity=3)
    live.publish(5)
    live.turn()
    assert live.counts == (2, 3)
    live.requeue(consumer, 3)
    assert live.dead == [(b"1", "maxlen"), (b"2", "maxlen"), (b"3", "maxlen")]


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_full_queue_refuses(overflow: str) -> None:
    live = LiveQueue(replace(DLX, max_length=2, overflow=overflow))
    publisher = TestPublisher()
    live.publish(4, publisher)
    live.turn()
    assert publisher.confirms == [1, 2]
    assert publisher.refusals == [3, 4]
    assert live.dead == ([(b"3", "maxlen"), (b"4", "maxlen")] if overflow == "reject-publish-dlx" else [])
    assert live.drain() == [b"1", b"2"]


def test_a_full_queue_refuses_by_bytes_including_the_new_message() -> None:
    live = LiveQueue(QueueSettings(max_length_bytes=10, overflow="reject-publish"))
    publisher = TestPublisher()
    for size in (6, 6, 4, 3, 11):
        live.publish(1, publisher, size=size)
    assert publisher.confirms == [1, 3]
    assert publisher.refusals == [2, 4, 5]


def test_a_queue_that_refuses_keeps_what_is_given_back() -> None:
    live = LiveQueue(QueueSettings(max_length=1, overflow="reject-publish"))
    live.publish(1)
    message = live.queue.take(no_ack=False)
    assert message is not None
    live.publish(1)
    live.queue.requeue([message])
    assert live.drain() == [b"1", b"2"]


# -- settling -----------------------------------------------------------------------------------


def test_rejected_messages_are_dead_letters() -> None:
    live = LiveQueue(DLX)
    consumer = live.subscribe()
    live.publish(3)
    live.turn()
    live.queue.reject(consumer.held[1:2])
    assert live.dead == [(b"2", "rejected")]
    assert live.counts == (0, 2)


def test_messages_given_back_return_to_their_places() -> None:
    live = LiveQueue()
    consumer = live.subscribe(capacity=4)
    live.publish(6)
    live.turn()
    third, first = consumer.held[2], consumer.held[0]
    live.queue.unsubscribe(consumer)
    live.queue.requeue([third])
    live.queue.requeue([first])
    assert live.drain() == [b"1", b"3", b"5", b"6"]
    assert third.redelivered


def test_a_deleted_queue_takes_and_gives_nothing() -> None:
    live = LiveQueue(QueueSettings(durable=True, auto_delete=True))
    consumer = live.subscribe()
    publisher = TestPublisher()
    live.publish(2, publisher, persistent=True)
    live.queue.pump()
    held = consumer.held
    live.queue.erase(lambda one: one.cancelled())
    assert consumer.told_cancelled
    assert publisher.confirms == [1, 2], "nothing will ever be known of them: nobody is to wait"
    live.queue.acknowledge(held[:1])
    live.queue.requeue(held[1:])
    live.queue.unsubscribe(consumer)
    live.publish(1, publisher)
    assert publisher.confirms == [1, 2, 3]
    live.flush()
    assert publisher.confirms == [1, 2, 3]
    assert live.counts == (0, 0)
    assert live.budget.used_bytes == 0
    assert live.unused_count == 0


# -- confirms -----------------------------------------------------------------------------------


def test_a_persistent_message_is_confirmed_after_the_flush_only() -> None:
    live = LiveQueue(QueueSettings(durable=True))
    publisher = TestPublisher()
    consumer = live.subscribe()
    live.publish(2, publisher, persistent=True)
    live.queue.pump()
    live.acknowledge(consumer, 2)
    assert publisher.confirms == [], "not even when it was delivered and acknowledged meanwhile"
    live.flush()
    assert publisher.confirms == [1, 2]


@pytest.mark.parametrize(("durable", "persistent"), [(True, False), (False, True), (False, False)])
def test_transient_messages_are_confirmed_at_once(durable: bool, persistent: bool) -> None:
    live = LiveQueue(QueueSettings(durable=durable))
    publisher = TestPublisher()
    live.publish(2, publisher, persistent=persistent)
    assert publisher.confirms == [1, 2]


# -- idleness -----------------------------------------------------------------------------------


def test_an_unused_queue_expires() -> None:
    live = LiveQueue(QueueSettings(expires_ms=100))
    live.advance(99)
    assert live.unused_count == 0
    live.advance(1)
    assert live.unused_count == 1


def test_consumers_and_gets_keep_a_queue() -> None:
    live = LiveQueue(QueueSettings(expires_ms=100))
    live.advance(60)
    live.queue.take(no_ack=True)
    live.advance(60)
    assert live.unused_count == 0
    consumer = live.subscribe()
    live.advance(1_000)
    assert live.unused_count == 0
    live.queue.unsubscribe(consumer)
    live.advance(99)
    assert live.unused_count == 0
    live.advance(1)
    assert live.unused_count == 1


def test_the_last_consumer_of_an_auto_delete_queue_takes_it_along() -> None:
    live = LiveQueue(QueueSettings(auto_delete=True))
    first, second = live.subscribe(), live.subscribe()
    live.queue.unsubscribe(first)
    assert live.unused_count == 0
    live.queue.unsubscribe(second)
    assert live.unused_count == 1


# -- policies on live queues --------------------------------------------------------------------


def test_a_new_limit_drops_at_once() -> None:
    live = LiveQueue(DLX)
    live.publish(5)
    live.queue.apply(replace(DLX, max_length=2))
    assert live.drain() == [b"4", b"5"]
    assert [reason for _, reason in live.dead] == ["maxlen"] * 3


def test_a_new_limit_that_refuses_drops_nothing() -> None:
    live = LiveQueue()
    live.publish(5)
    live.queue.apply(QueueSettings(max_length=2, overflow="reject-publish"))
    publisher = TestPublisher()
    live.publish(1, publisher)
    assert publisher.refusals == [6]
    assert len(live.drain()) == 5


def test_a_new_lifetime_is_for_new_messages() -> None:
    live = LiveQueue(DLX)
    live.publish(1)
    live.queue.apply(replace(DLX, message_ttl_ms=10))
    live.publish(1)
    live.turn()
    live.advance(20)
    assert live.drain() == [b"1"]
    assert live.dead == [(b"2", "expired")]


def test_a_queue_that_becomes_lazy_keeps_order_and_content() -> None:
    live = LiveQueue(limits=QueueLimits(lazy_head_messages=2))
    live.publish(5)
    live.queue.apply(QueueSettings(lazy=True))
    for _ in range(5):
        live.publish(1)
    used = live.budget.used_bytes
    live.queue.apply(QueueSettings())
    live.publish(1)
    assert live.budget.used_bytes == used, "younger messages wait behind those that are paged out"
    assert live.drain() == [b"%d" % number for number in range(1, 12)]


def test_a_shorter_idle_time_counts_from_now_and_is_watched_once() -> None:
    live = LiveQueue(QueueSettings(expires_ms=3_600_000))
    for _ in range(10):
        live.queue.apply(QueueSettings(expires_ms=50))
        live.queue.apply(QueueSettings(expires_ms=60))
    live.advance(49)
    assert live.unused_count == 0
    live.advance(11)
    assert live.unused_count == 1


def test_an_idle_time_that_is_taken_away_is_forgotten() -> None:
    live = LiveQueue(QueueSettings(expires_ms=50))
    live.queue.apply(QueueSettings())
    live.advance(1_000)
    assert live.unused_count == 0


def test_many_policy_changes_leave_one_watcher() -> None:
    live = LiveQueue(QueueSettings(expires_ms=100))
    live.subscribe()
    for _ in range(50):
        live.queue.apply(QueueSettings(expires_ms=100))
        live.advance(10)
    live.advance(1_000)
    due = 0
    while live.clock.next_ms is not None and due < 10:
        due += 1
        live.advance(live.clock.next_ms - live.clock.now_ms)
    pending = len(live.clock._due)
    assert pending == 1


# -- basic.get ----------------------------------------------------------------------------------


def test_get_takes_the_next_one() -> None:
    live = LiveQueue()
    live.publish(2)
    message = live.queue.take(no_ack=False)
    assert message is not None
    assert body(message) == b"1"
    assert live.counts == (1, 1)
    assert live.drain() == [b"2"]
    assert live.queue.take(no_ack=True) is None
