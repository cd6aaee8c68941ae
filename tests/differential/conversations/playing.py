"""Speaks a conversation to a broker.

Each step waits until everything that it set off has come back, as far as that can be known from outside:
publishes are confirmed (in secret, unless the conversation itself speaks of confirms or transactions), every
channel has answered a question, and a short pause has passed for what RabbitMQ's queues tell each other.
Channels and connections that have ended are opened again when a step needs them.
"""

from __future__ import annotations

import re
import time
from typing import Any

from tests.differential.client import Channel, Connection, Event
from tests.differential.codec import METHODS
from tests.differential.context import Context
from tests.differential.conversations.making import Step
from tests.differential.conversations.words import QUEUES

DRAIN_MAX = 40
RESOURCE_LOCKED = 405
DELIVERY = re.compile(r'^(\w+\.\d+) < basic\.deliver consumer-tag="(.*?)" delivery-tag=(\d+)')
GOT = re.compile(r"^(\w+\.\d+) < basic\.get-ok delivery-tag=(\d+)")
SLOW = frozenset(["drop", "connection.close", "cross connection.close", "set_policy", "clear_policy"])
"""Steps that RabbitMQ passes to its queues in the background."""
SLOW_PAUSES = 5


class Player:
    """One conversation with one broker."""

    def __init__(self, context: Context, steps: list[Step], pause_s: float) -> None:
        self.c, self.steps, self.pause_s = context, steps, pause_s
        modes = ("tx.select", "confirm.select")
        self.plain = any(step.verb in modes for step in steps)
        self.connections: dict[int, Connection] = {}
        self.channels: dict[tuple[int, int], Channel] = {}
        self.out: dict[str, list[int]] = {}
        """By channel name: what has been delivered and not been answered."""
        self.without_acks: set[tuple[str, str]] = set()
        self.read = 0

    def play(self) -> None:
        for step in self.steps:
            self.take(step)
            self.wait(self.pause_s * (SLOW_PAUSES if step.verb in SLOW else 1))
            got = step.fields if step.verb == "basic.get" else step.fields.get("fields", {})
            self.learn(bool(got.get("no_ack")))
        self.look()
        self.drain()

    # -- steps -----------------------------------------------------------------------------------------

    def take(self, step: Step) -> None:
        if step.verb in ("set_policy", "clear_policy"):
            self.order(step)
            return
        channel = self.channel(step.at)
        fields = dict(step.fields)
        match step.verb:
            case "drop":
                self.c.transcript.add(f"{channel.connection.name} is dropped")
                channel.connection.end()
            case "connection.close":
                channel.connection.zero.call("connection.close", reply_code=200)
                channel.connection.end()
            case "channel.close":
                channel.call("channel.close", reply_code=200)
            case "cross channel.close":
                self.cross(channel)
            case "cross connection.close":
                with channel.connection.at_once():
                    for _ in range(2):
                        channel.connection.zero.send("connection.close", reply_code=200)
                channel.connection.zero.read(2)
                channel.connection.end()
            case "basic.publish":
                self.publish(channel, fields)
            case "publish and":
                with channel.connection.at_once():
                    self.publish(channel, dict(fields["publish"]))
                    channel.send(fields["verb"], **fields["fields"])
                self.hear(channel, *METHODS[fields["verb"]].answers)
            case "basic.ack" | "basic.nack" | "basic.reject":
                for _ in range(fields.pop("times", 1)):
                    self.settle(channel, step.verb, dict(fields))
            case _:
                self.say(channel, step.verb, fields)

    def publish(self, channel: Channel, fields: dict[str, Any]) -> None:
        where = fields.pop("exchange"), fields.pop("routing_key")
        body, times = fields.pop("body"), fields.pop("times", 1)
        for number in range(times):
            channel.publish(*where, f"{body}-{number}" if number else body, **fields)

    def cross(self, channel: Channel) -> None:
        """The broker's channel.close and the client's are under way at the same time; both are answered."""
        channel.connection.answers_closes = False
        with channel.connection.at_once():
            channel.send("queue.declare", queue="missing", passive=True)
            channel.send("channel.close", reply_code=200)
        while not channel.connection.ended_or_ending and channel.read().name != "channel.close-ok":
            pass
        channel.send("channel.close-ok")
        channel.connection.answers_closes = True

    def hear(self, channel: Channel, *answers: str) -> None:
        """Write down an answer, or whatever ends the channel. What came before it is written down later: in
        RabbitMQ a delivery or a confirm is now before and now behind an answer."""
        earlier = []
        while not channel.closed and not channel.connection.ended:
            heard = channel.next()
            if isinstance(heard, Event) or heard.name in (*answers, "channel.close", "connection.close"):
                channel.note(heard)
                break
            earlier.append(heard)
        channel.inbox.extendleft(reversed(earlier))

    def say(self, channel: Channel, verb: str, fields: dict[str, Any]) -> None:
        if verb == "basic.consume" and fields.get("no_ack"):
            self.without_acks.add((channel.name, fields["consumer_tag"]))
        if verb == "basic.consume" and not fields.get("no_ack"):
            self.without_acks.discard((channel.name, fields["consumer_tag"]))
        if verb.startswith("basic.recover"):
            self.out.pop(channel.name, None)
        if METHODS[verb].answers:
            channel.call(verb, **fields)
        else:
            channel.send(verb, **fields)

    def settle(self, channel: Channel, verb: str, fields: dict[str, Any]) -> None:
        out = self.out.get(channel.name, [])
        if "nth" in fields:
            if not out:
                return
            nth = fields.pop("nth")
            fields["delivery_tag"] = out[min(nth, len(out) - 1)]
        tag = fields["delivery_tag"]
        multiple = fields.get("multiple")
        self.out[channel.name] = [other for other in out if (other > tag if multiple else other != tag)]
        channel.send(verb, **fields)

    def order(self, step: Step) -> None:
        try:
            getattr(self.c.admin, step.verb)(*step.fields.values())
        except RuntimeError:
            self.c.transcript.add("- there is no such policy")

    # -- channels --------------------------------------------------------------------------------------

    def connection(self, slot: int) -> Connection:
        known = self.connections.get(slot)
        if known is None or known.ended_or_ending:
            known = self.connections[slot] = self.c.connect()
        return known

    def channel(self, at: tuple[int, int]) -> Channel:
        connection = self.connection(at[0])
        known = self.channels.get(at)
        if known is None or known.closed or known.connection is not connection:
            known = self.channels[at] = self.c.channel(connection, plain=self.plain)
        return known

    def alive(self) -> list[Channel]:
        return [one for one in self.channels.values() if not one.closed and not one.connection.ended]

    # -- waiting ---------------------------------------------------------------------------------------

    def wait(self, pause_s: float) -> None:
        for channel in self.alive():
            channel.wait_for_hidden_confirms()
        self.ask()
        for channel in self.alive():
            if channel.ending:  # RabbitMQ keeps what a failed channel got until close-ok; MirrorMQ does not
                channel.flush()
        time.sleep(pause_s)
        self.ask()
        for channel in self.alive():
            channel.flush()
        for connection in self.connections.values():
            connection.zero.flush()

    def ask(self) -> None:
        for channel in self.alive():
            channel.hidden_call("exchange.declare", exchange="amq.direct", passive=True)

    def learn(self, automatic: bool) -> None:
        """Note the deliveries that await an answer."""
        lines = self.c.transcript.lines
        for line in lines[self.read :]:
            if found := DELIVERY.match(line):
                name, tag, number = found.groups()
                if (name, tag) not in self.without_acks:
                    self.out.setdefault(name, []).append(int(number))
            elif (found := GOT.match(line)) and not automatic:
                self.out.setdefault(found[1], []).append(int(found[2]))
        self.read = len(lines)

    # -- the end ---------------------------------------------------------------------------------------

    def look(self) -> None:
        """Record the numbers of messages and consumers that each connection sees."""
        for connection in self.connections.values():
            if connection.ended_or_ending:
                continue
            for queue in QUEUES:
                channel = self.c.channel(connection)
                answer = channel.hidden_call("queue.declare", queue=queue, passive=True)
                seen = (
                    f"{answer.message_count} messages, {answer.consumer_count} consumers" if answer else "no"
                )
                self.c.transcript.add(f"- {connection.name} sees {queue}: {seen}")
                self.hush(channel)

    def hush(self, channel: Channel) -> None:
        """Close without a trace."""
        lines = self.c.transcript.lines
        mark = len(lines)
        channel.flush()
        if not channel.closed:
            channel.hidden_call("channel.close", reply_code=200)
            channel.closed = True
        del lines[mark:]

    def drain(self) -> None:
        for channel in self.alive():
            channel.hidden_call("channel.close", reply_code=200)
            channel.closed = True
            time.sleep(self.pause_s * 2)
        last = self.c.connect()
        for queue in QUEUES:
            for connection in [last, *self.connections.values()]:
                if connection.ended_or_ending or self.drained(connection, queue):
                    break

    def drained(self, connection: Connection, queue: str) -> bool:
        channel = self.c.channel(connection)
        for _ in range(DRAIN_MAX):
            answer = channel.get(queue, no_ack=True)
            if answer.name != "basic.get-ok":
                break
        gone = channel.closed
        if not gone:
            channel.hidden_call("channel.close", reply_code=200)
            channel.closed = True
        return not (gone and answer.fields.get("reply-code") == RESOURCE_LOCKED)
