"""The path of a message: a real one, traced through a node, takes the steps that ARCHITECTURE.md tells."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType

import pytest

import mirrormq
from mirrormq.wire import methods
from tests.wakeups.nodes import Client, World, run

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(mirrormq.__file__).parent
STEPS_MAX = 12
FRAMES_MAX = 12
PACKAGES_MAX = 5
QUEUE = "traced"


class Trace:
    """Calls of our functions in order, and the stack at one of them."""

    def __init__(self, watched: str) -> None:
        self.calls: list[str] = []
        self.stack: list[str] = []
        """Functions on the stack of the watched call, from it up to the socket."""
        self.packages: set[str] = set()
        """Packages of these functions."""
        self._watched = watched

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(SOURCE)):
            name = frame.f_code.co_qualname
            self.calls.append(name)
            if name == self._watched:
                self.stack, self.packages = [], set()
                above: FrameType | None = frame
                while above is not None and "AmqpSocket.data_received" not in self.stack:
                    self.stack.append(above.f_code.co_qualname)
                    self.packages.add(Path(above.f_code.co_filename).parent.name)
                    above = above.f_back


def told(title: str) -> list[list[str]]:
    """Return the functions that each numbered step under a title of ARCHITECTURE.md names."""
    text = (ROOT / "ARCHITECTURE.md").read_text().split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    steps = re.split(r"^\d+\. +", text, flags=re.MULTILINE)[1:]
    return [re.findall(r"`([A-Z]\w+\.\w+|acknowledge_each)`", step.split("\n\n")[0]) for step in steps]


async def prepared(world: World) -> Client:
    """Return a client with a durable queue, confirms and a consumer, after one message of the same kind."""
    client = await world.connect()
    client.send(
        methods.encode_queue_declare(QUEUE, durable=True),
        methods.encode_confirm_select(),
        methods.encode_basic_consume(QUEUE, "consumer"),
    )
    await client.until(methods.BASIC_CONSUME_OK)
    await publish(client)
    return client


async def publish(client: Client) -> None:
    """Publish a persistent message and read its delivery and its confirm."""
    client.publish(QUEUE, 1, delivery_mode=2)
    await client.until(methods.BASIC_DELIVER)
    await client.until_confirmed(client.tag)


async def acknowledge(client: Client) -> None:
    """Acknowledge the first delivery; the reply to another method shows that the broker has done it."""
    client.send(methods.encode_basic_ack(1, False), methods.encode_basic_qos(0, 0))
    await client.until(methods.BASIC_QOS_OK)


def traced(
    step: Callable[[Client], Awaitable[None]], watched: str, directory: Path, patch: pytest.MonkeyPatch
) -> Trace:
    """Return the trace of what a client does, in a node of its own."""
    trace = Trace(watched)

    async def scenario(world: World) -> None:
        client = await prepared(world)
        sys.setprofile(trace)
        try:
            await step(client)
        finally:
            sys.setprofile(None)

    run(scenario, 1, directory, patch)
    return trace


def check_order(trace: Trace, steps: list[list[str]]) -> None:
    """Every function that the steps name was called after the one before."""
    assert 0 < len(steps) <= STEPS_MAX
    calls = iter(trace.calls)
    for name in [name for names in steps for name in names]:
        assert name in calls, f"{name} is not called, or before the steps that precede it"


@pytest.mark.patches_core
def test_a_publish_takes_the_documented_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = traced(publish, "JournalWriter.append_message", tmp_path, monkeypatch)
    check_order(trace, told("The path of a publish"))
    assert trace.stack[-1] == "AmqpSocket.data_received"
    assert len(trace.stack) <= FRAMES_MAX, trace.stack
    assert len(trace.packages) <= PACKAGES_MAX, trace.packages


@pytest.mark.patches_core
def test_an_acknowledgement_takes_the_documented_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = traced(acknowledge, "JournalQueue.acknowledge_one", tmp_path, monkeypatch)
    check_order(trace, told("The path of an acknowledgement"))
    assert trace.stack[-1] == "AmqpSocket.data_received"
    assert len(trace.stack) <= FRAMES_MAX, trace.stack
    assert len(trace.packages) <= PACKAGES_MAX, trace.packages
