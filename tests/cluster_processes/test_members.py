"""Declarations through one node are visible through all; nodes that die or pause come back."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pika.exceptions
import pytest

from tests.cluster_processes.nodes import Nodes
from tests.waiting import until


def exchanges(nodes: Nodes, index: int) -> str:
    return nodes.control(index, ["-q", "list_exchanges", "name", "--no-table-headers"])[1]


def test_a_declaration_at_one_node_is_visible_at_the_others(nodes: Nodes) -> None:
    nodes.form()
    with nodes.channel(0) as channel:
        channel.exchange_declare("from-one", "fanout", durable=True)
        channel.queue_declare("queue-of-one", durable=True)
    assert nodes.control(1, ["-q", "add_user", "anna", "secret"])[0] == 0
    for index in (1, 2):
        with nodes.channel(index) as channel:
            channel.exchange_declare("from-one", passive=True)
        assert "queue-of-one" in nodes.control(index, ["-q", "list_queues", "name"])[1]
        assert nodes.control(index, ["-q", "authenticate_user", "anna", "secret"])[0] == 0


def test_a_killed_node_is_missed_and_rejoins_with_what_it_missed(nodes: Nodes) -> None:
    nodes.form()
    nodes.kill(0)
    nodes.await_running(1, 1, 2)
    with nodes.channel(2) as channel:
        channel.exchange_declare("meanwhile", durable=True)
    nodes.start(0)
    nodes.await_running(1, 0, 1, 2)
    assert "meanwhile" in exchanges(nodes, 0)


def test_a_cluster_that_was_stopped_comes_back_in_any_order(nodes: Nodes) -> None:
    nodes.form()
    with nodes.channel(0) as channel:
        channel.exchange_declare("kept", durable=True)
    for index in (0, 1, 2):
        assert nodes.stop(index) == 0
    for index in (0, 1, 2):
        nodes.spawn(index)
    for index in (0, 1, 2):
        nodes.await_serving(index)
        nodes.await_running(index, 0, 1, 2)
    assert "kept" in exchanges(nodes, 2)


def test_a_node_that_was_put_back_from_an_older_copy_serves_again(nodes: Nodes, tmp_path: Path) -> None:
    nodes.form()
    assert nodes.stop(0) == 0
    shutil.copytree(nodes.data(0), tmp_path / "copy")
    nodes.start(0)
    with nodes.channel(0) as channel:
        channel.exchange_declare("later", durable=True)
    for index in (0, 1, 2):
        nodes.kill(index)
    shutil.rmtree(nodes.data(0))
    shutil.copytree(tmp_path / "copy", nodes.data(0))
    for index in (0, 1, 2):
        nodes.spawn(index)
    for index in (0, 1, 2):
        nodes.await_serving(index)
    assert "later" in exchanges(nodes, 0)


def test_a_node_without_a_majority_closes_its_clients_and_goes_on_when_others_come_back(nodes: Nodes) -> None:
    nodes.form()
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", nodes.amqp_port(0)))
    nodes.kill(1)
    nodes.kill(2)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        while True:
            connection.process_data_events(1)
    assert closed.value.args[0] == 320
    code, _, error = nodes.control(0, ["list_users"])
    assert (code, "requires the 'rabbit' app to be running" in error) == (64, True)
    nodes.spawn(1)
    nodes.await_serving(0)
    nodes.await_serving(1)
    nodes.await_running(0, 0, 1)


def test_a_frozen_node_is_declared_down_and_starts_a_new_incarnation_when_it_thaws(nodes: Nodes) -> None:
    nodes.form()
    os.kill(nodes.processes[2].pid, signal.SIGSTOP)
    nodes.await_running(0, 0, 1)
    os.kill(nodes.processes[2].pid, signal.SIGCONT)
    until(lambda: nodes.log(2).count("serves clients at") == 2, lambda: nodes.log(2))
    assert "stopped serving clients" in nodes.log(2)
    nodes.await_running(0, 0, 1, 2)
    nodes.await_serving(2)


def test_of_two_nodes_one_goes_on_alone(nodes: Nodes) -> None:
    nodes.start(0)
    nodes.start(1, "--join", nodes.seed(0))
    nodes.await_running(0, 0, 1)
    nodes.kill(0)
    nodes.await_running(1, 1)
    with nodes.channel(1) as channel:
        channel.exchange_declare("alone", durable=True)
    nodes.start(0)
    nodes.await_running(0, 0, 1)
    assert "alone" in exchanges(nodes, 0)


def test_connections_channels_and_consumers_of_all_nodes_are_listed_and_closed_from_any(nodes: Nodes) -> None:
    nodes.form()
    with nodes.channel(0), nodes.channel(1) as channel, nodes.channel(2):
        channel.queue_declare("mine", exclusive=True)
        channel.basic_consume("mine", lambda *_: None, consumer_tag="the-tag")
        for command, count in (("list_connections", 3), ("list_channels", 3), ("list_consumers", 1)):
            found = nodes.ask(2, command)
            assert isinstance(found, list)
            assert len(found) == count, command
        (pid,) = [row["connection"] for row in nodes.ask(0, "list_channels") if row["consumer_count"]]  # type: ignore[attr-defined]
        assert nodes.control(2, ["-q", "close_connection", pid, "enough"])[0] == 0
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="enough"):
            channel.connection.process_data_events(5)


def test_all_connections_of_a_vhost_are_closed_on_every_node_up_to_a_limit(nodes: Nodes) -> None:
    nodes.form()
    kept = [
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", nodes.amqp_port(index)))
        for index in (0, 1, 1, 2, 2)
    ]
    code, out, _ = nodes.control(0, ["close_all_connections", "--limit", "3", "enough"])
    assert (code, out.splitlines()[-1]) == (0, "Closed 3 connections")
    for connection in kept[:3]:
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="enough"):
            connection.process_data_events(5)
    assert len(nodes.ask(1, "list_connections")) == 2  # type: ignore[arg-type]
    assert nodes.control(1, ["-q", "close_all_connections", "enough"])[1] == "Closed 2 connections\n"
