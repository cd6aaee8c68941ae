"""A node that cannot read what its cluster has agreed on stops, and says why."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from mirrormq.config.settings import Address, Settings
from mirrormq.metadata.store import Unreadable
from mirrormq.runtime.node import Node
from tests.brokers.ports import free_ports


def ends_with(directory: Path, happens: Callable[[Node], None]) -> int:
    """The exit code of a node to which something happens while it serves clients."""

    async def incarnation() -> int:
        settings = Settings(
            data_directory=directory / "data",
            runtime_directory=directory / "run",
            amqp_listeners=(Address("127.0.0.1", free_ports(1)[0]),),
            management_listener=None,
            cluster_listener=None,
        )
        node = Node(settings, asyncio.get_running_loop())
        running = asyncio.create_task(node.run())
        while node.application is None:
            assert not running.done()
            await asyncio.sleep(0.01)
        happens(node)
        return await running

    async def within_a_minute() -> int:
        return await asyncio.wait_for(incarnation(), 60)

    return asyncio.run(within_a_minute())


def agree_on_nonsense(node: Node) -> None:
    member = node.cluster_node.member
    assert member.propose(b"nonsense", True) is not None
    with contextlib.suppress(Unreadable):
        member.proposed()


def fail_a_connection(node: Node) -> None:
    assert node.application is not None
    node.application.fault(None, Unreadable("nonsense"))


@pytest.mark.parametrize("happens", [agree_on_nonsense, fail_a_connection])
def test_a_node_stops_rather_than_differ_from_the_rest(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], happens: Callable[[Node], None]
) -> None:
    assert ends_with(tmp_path, happens) == 1
    said = "".join(capfd.readouterr())
    assert "node stops: " in said
    assert "journal" not in said
