"""Name of the cluster: the first node's until an operator sets one, and stable when nodes come and go."""

from __future__ import annotations

import pytest

from mirrormq.metadata import commands as c
from mirrormq.metadata.cluster_name import cluster_name, naming_commands, shown_global_parameters
from mirrormq.metadata.records import GlobalParameter, Node
from mirrormq.metadata.state import MetadataState


def start(state: MetadataState, node: str, configured: str | None = None) -> None:
    """Apply what a starting node writes."""
    state.apply(c.PutNode(Node(node, incarnation=1)))
    for command in naming_commands(state, node, configured):
        state.apply(command)


@pytest.fixture
def state() -> MetadataState:
    state = MetadataState()
    start(state, "b@host")
    start(state, "a@host")
    return state


def test_the_first_node_names_the_cluster_on_all_nodes(state: MetadataState) -> None:
    assert {cluster_name(state, node) for node in state.nodes} == {"b@host"}


def test_the_name_stays_when_the_first_node_leaves(state: MetadataState) -> None:
    state.apply(c.DeleteNode("b@host"))
    assert cluster_name(state, "a@host") == "b@host"
    assert cluster_name(MetadataState.from_snapshot(state.snapshot()), "a@host") == "b@host"


def test_an_operator_names_the_cluster_and_takes_the_name_back(state: MetadataState) -> None:
    state.apply(c.PutGlobalParameter(GlobalParameter("cluster_name", "shop")))
    start(state, "c@host")
    assert cluster_name(state, "c@host") == "shop"
    state.apply(c.DeleteGlobalParameter("cluster_name"))
    assert cluster_name(state, "c@host") == "b@host"


def test_a_configured_name_replaces_another_at_each_start(state: MetadataState) -> None:
    state.apply(c.PutGlobalParameter(GlobalParameter("cluster_name", "shop")))
    start(state, "a@host", "configured")
    assert cluster_name(state, "b@host") == "configured"
    assert naming_commands(state, "a@host", "configured") == [], "a restart writes nothing"


def test_lists_show_a_name_that_was_set_but_not_the_default(state: MetadataState) -> None:
    assert shown_global_parameters(state) == {}
    state.apply(c.PutGlobalParameter(GlobalParameter("cluster_name", "shop")))
    assert list(shown_global_parameters(state)) == ["cluster_name"]
