"""Exclusive queues: they are deleted with their connection, and no other connection's queue is."""

from __future__ import annotations

import pytest

from mirrormq.metadata import commands
from mirrormq.metadata.records import Queue
from mirrormq.metadata.store import WriteResult
from mirrormq.wire import methods
from tests.harness import Client, Node

DECLARE = methods.encode_queue_declare("x", exclusive=True)


def deletions(node: Node) -> list[commands.Command]:
    """Return the list of commands that delete queues from now on."""
    found: list[commands.Command] = []

    def hear(written: WriteResult) -> None:
        if isinstance(written.command, commands.DeleteQueue):
            found.append(written.command)

    node.metadata.observers.append(hear)
    return found


def queue_id(node: Node) -> int:
    return node.metadata.state.queues["/", "x"].queue_id


def overtaken(foreign: Queue) -> tuple[Node, Client]:
    """Let a connection declare `x` as exclusive while another client's declaration is agreed on first."""
    node = Node()
    client = node.connect()
    node.broker.vhosts["/"].claim_exclusive("x", client.connection)
    node.write(commands.PutQueue(foreign))
    return node, client


def test_a_deletion_says_which_queue_of_that_name_is_meant() -> None:
    node = Node()
    deleted = deletions(node)
    for turn in range(3):
        client = node.connect()
        if turn == 0:
            client.call(DECLARE)
        elif turn == 1:
            client.call(methods.encode_queue_declare("x", auto_delete=True))
            client.call(methods.encode_basic_consume("x", "tag"))
        else:
            client.call(methods.encode_queue_declare("x"))
        meant = queue_id(node)
        if turn == 2:
            client.call(methods.encode_queue_delete("x"))
        client.lose()
        node.turn()
        assert deleted.pop() == commands.DeleteQueue("/", "x", meant)
        assert not deleted


def test_a_queue_that_is_made_after_its_connection_has_gone_goes_too() -> None:
    node = Node()
    client = node.connect()
    with node.metadata.together():
        client.send(DECLARE)
        client.lose()
        assert ("/", "x") not in node.metadata.state.queues
    assert ("/", "x") not in node.metadata.state.queues
    assert node.metadata.state.next_queue_id == 2, "it was there for a moment"
    assert node.broker.vhosts["/"].exclusive_to(client.connection) == []


@pytest.mark.parametrize(
    "foreign", [Queue("/", "x", node="other"), Queue("/", "x", exclusive=True, node="other")]
)
def test_a_queue_of_that_name_of_another_client_stays(foreign: Queue) -> None:
    node, client = overtaken(foreign)
    assert node.broker.vhosts["/"].owner_of("x") is None
    client.lose()
    assert ("/", "x") in node.metadata.state.queues
    assert node.broker.vhosts["/"].exclusive_to(client.connection) == []


def test_a_claim_outlives_another_clients_queue_of_that_name() -> None:
    node, client = overtaken(Queue("/", "x", node="other"))
    node.write(commands.DeleteQueue("/", "x"))
    node.write(commands.PutQueue(Queue("/", "x", durable=False, exclusive=True, node=node.name)))
    assert node.broker.vhosts["/"].owner_of("x") is client.connection
    client.lose()
    assert ("/", "x") not in node.metadata.state.queues
