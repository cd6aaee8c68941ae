"""Turn order of consumers: fair among equals, higher priorities first, one at a time for a single active
consumer."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mirrormq.queues.queue_limits import DEFAULT_LIMITS, QueueLimits
from mirrormq.queues.queue_settings import QueueSettings
from tests.queues.live import LiveQueue, TestConsumer


def test_equals_take_turns_one_message_at_a_time() -> None:
    live = LiveQueue()
    consumers = [live.subscribe() for _ in range(3)]
    live.publish(9)
    live.turn()
    assert [consumer.bodies for consumer in consumers] == [
        [b"1", b"4", b"7"], [b"2", b"5", b"8"], [b"3", b"6", b"9"],
    ]  # fmt: skip


def test_turns_go_on_where_they_were() -> None:
    live = LiveQueue()
    first, second = live.subscribe(), live.subscribe()
    for _ in range(4):
        live.publish(1)
        live.turn()
    assert (first.bodies, second.bodies) == ([b"1", b"3"], [b"2", b"4"])


def test_a_consumer_without_room_is_passed_over_and_comes_back() -> None:
    live = LiveQueue()
    slow, fast = live.subscribe(capacity=1), live.subscribe()
    live.publish(5)
    live.turn()
    assert (slow.bodies, fast.bodies) == ([b"1"], [b"2", b"3", b"4", b"5"])
    live.acknowledge(slow, 1)
    live.publish(2)
    live.turn()
    assert sorted(slow.bodies + fast.bodies) == [b"%d" % n for n in range(1, 8)]
    assert len(slow.bodies) == 2


def test_a_higher_priority_is_served_while_it_has_room() -> None:
    live = LiveQueue()
    low = live.subscribe(priority=-1)
    high = live.subscribe(priority=5, capacity=2)
    live.publish(5)
    live.turn()
    assert (high.bodies, low.bodies) == ([b"1", b"2"], [b"3", b"4", b"5"])
    live.acknowledge(high, 2)
    live.publish(1)
    live.turn()
    assert high.bodies[-1] == b"6"


def test_the_single_active_consumer_has_all_until_it_goes() -> None:
    live = LiveQueue(QueueSettings(single_active_consumer=True))
    first, second = live.subscribe(capacity=2), live.subscribe()
    live.publish(4)
    live.turn()
    assert (first.bodies, second.bodies) == ([b"1", b"2"], []), "a full active consumer is waited for"
    live.acknowledge(first, 2)
    live.turn()
    assert first.bodies == [b"1", b"2", b"3", b"4"]
    held = first.held
    live.queue.unsubscribe(first)
    live.queue.requeue(held)
    live.turn()
    assert second.bodies == [b"3", b"4"]
    assert all(message.redelivered for message in second.held)
    assert second.active


def test_the_next_active_consumer_is_the_oldest_of_the_highest_priority() -> None:
    live = LiveQueue(QueueSettings(single_active_consumer=True))
    first = live.subscribe()
    live.subscribe(priority=1)
    important = live.subscribe(priority=2)
    live.subscribe(priority=2)
    live.queue.unsubscribe(first)
    assert live.queue.consumers.active is important


def test_a_waiting_active_consumer_that_leaves_does_not_block_the_next() -> None:
    live = LiveQueue(QueueSettings(single_active_consumer=True))
    first, second = live.subscribe(capacity=1), live.subscribe()
    live.publish(3)
    live.turn()
    assert first.waiting
    live.queue.unsubscribe(first)
    live.turn()
    assert second.bodies == [b"2", b"3"]


def test_an_exclusive_consumer_is_known_until_it_leaves() -> None:
    live = LiveQueue()
    consumer = live.subscribe(exclusive=True)
    assert live.queue.exclusive_consumer is consumer
    live.queue.unsubscribe(consumer)
    assert live.queue.exclusive_consumer is None


def test_an_auto_ack_delivery_is_gone_when_it_is_delivered() -> None:
    live = LiveQueue()
    consumer = live.subscribe(no_ack=True)
    live.publish(3)
    live.turn()
    assert consumer.bodies == [b"1", b"2", b"3"]
    assert live.counts == (0, 0)


def test_one_pump_hands_out_a_bounded_number_of_bytes() -> None:
    live = LiveQueue(limits=QueueLimits(delivery_batch_bytes=1_000))
    consumer = live.subscribe()
    live.publish(10, size=300)
    assert live.queue.pump(), "there is more for another turn"
    assert len(consumer.bodies) == 4, "the bound may be passed by one message"
    live.turn()
    assert len(consumer.bodies) == 10


def test_a_message_larger_than_the_bound_is_delivered_alone() -> None:
    live = LiveQueue(limits=QueueLimits(delivery_batch_bytes=1_000))
    consumer = live.subscribe()
    live.publish(2, size=5_000)
    assert live.queue.pump()
    assert len(consumer.bodies) == 1
    live.turn()
    assert len(consumer.bodies) == 2


def test_a_pump_of_small_messages_ends_after_its_share() -> None:
    live = LiveQueue()
    consumer = live.subscribe()
    live.publish(DEFAULT_LIMITS.deliveries_per_pump + 1)
    assert live.queue.pump()
    assert len(consumer.bodies) == DEFAULT_LIMITS.deliveries_per_pump
    assert not live.queue.pump()
    assert len(consumer.bodies) == DEFAULT_LIMITS.deliveries_per_pump + 1


class TurnsMachine(RuleBasedStateMachine):
    """Check that no consumer with credit starves, none gets more than its credit, and no message is
    delivered twice."""

    single_active = False

    def __init__(self) -> None:
        super().__init__()
        self.live = LiveQueue(QueueSettings(single_active_consumer=self.single_active))
        self.consumers: list[TestConsumer] = []

    @rule(priority=st.integers(-1, 1), capacity=st.integers(1, 4))
    def subscribe(self, priority: int, capacity: int) -> None:
        self.consumers.append(self.live.subscribe(priority=priority, capacity=capacity))
        self.live.turn()

    @rule(count=st.integers(1, 10))
    def publish(self, count: int) -> None:
        self.live.publish(count)
        self.live.turn()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), requeue=st.booleans())
    def settle(self, data: st.DataObject, requeue: bool) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        count = data.draw(st.integers(0, len(consumer.held)))
        if requeue:
            self.live.requeue(consumer, count)
        else:
            self.live.acknowledge(consumer, count)
        self.live.turn()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        self.consumers.remove(consumer)
        self.live.queue.unsubscribe(consumer)
        self.live.requeue(consumer, len(consumer.held))
        self.live.turn()

    @invariant()
    def nobody_with_room_waits_while_messages_are_ready(self) -> None:
        if not self.live.queue.backing.ready_count:
            return
        if self.single_active:
            active = self.live.queue.consumers.active
            assert (active is None) == (not self.consumers)
            assert active is None or active.room() == 0
        else:
            assert all(consumer.room() == 0 for consumer in self.consumers)

    @invariant()
    def every_message_has_one_owner(self) -> None:
        held = Counter(message.sequence for consumer in self.consumers for message in consumer.held)
        assert all(count == 1 for count in held.values())
        assert self.live.queue.backing.unacked_count == len(held)
        assert all(len(consumer.held) <= consumer.capacity for consumer in self.consumers)


class SingleActiveMachine(TurnsMachine):
    """Turn order with a single active consumer."""

    single_active = True


TestTurns = TurnsMachine.TestCase
TestSingleActive = SingleActiveMachine.TestCase
