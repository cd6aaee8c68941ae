"""Comparison with RabbitMQ 3.10.8: equal shapes, equal order, equal replies.

`recorded.json` is the record of a real RabbitMQ (`python -m tests.management.record` writes it). All
differences are listed here by name, so that no other can occur.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.rabbitmq import RabbitMQ
from tests.management.cases import CASES
from tests.management.observing import observe
from tests.management.record import RECORDING, WITH_STATISTICS
from tests.needs import need_rabbitmq

_ERLANG = """
applications auth_mechanisms backing_queue_status context_switches cowboy_opts erlang_full_version
erlang_version garbage_collection gc_bytes_reclaimed gc_num metrics_gc_queue_length mnesia_disk_tx_count
mnesia_ram_tx_count msg_store_read_count msg_store_write_count proc_total proc_used
queue_index_read_count queue_index_write_count ra_open_file_metrics reductions
release_series_support_status run_queue sample_retention_policies socket_opts enabled_plugins
"""
ERLANG = frozenset(_ERLANG.split())
"""Fields that only Erlang has."""

_NOT_MEASURED = """
idle_since internal_cluster_id io_reopen_count io_seek_avg_time io_seek_count
"""
NOT_MEASURED = frozenset(_NOT_MEASURED.split())
"""RabbitMQ's numbers that this node does not measure yet."""

DETAILS_NOT_MEASURED = frozenset(
    {"io_read_avg_time_details", "io_sync_avg_time_details", "io_write_avg_time_details"}
)
"""Rates of averages."""

OUR_OWN_WORDS = {
    ("PUT", "queues/%2F/bad", "arguments"): "RabbitMQ prints a stack trace",
    ("PUT", "exchanges/%2F/bad", "x-consistent-hash"): "RabbitMQ quotes the type twice, as Erlang's atom",
    ("POST", "definitions", "queues"): "RabbitMQ crashes; ours says what is wrong",
    ("POST", "definitions", "policies"): "RabbitMQ names its validator",
    ("GET", "health/checks/protocol-listener/none", ""): "another set of listeners",
    ("GET", "cluster-name", ""): "named after the node",
    ("GET", "vhost-limits", ""): "RabbitMQ keeps an empty entry when a limit is cleared",
    ("GET", "parameters", ""): "the same empty entry",
    ("GET", "global-parameters", ""): "RabbitMQ's internal_cluster_id",
}
"""Reasons why a reply's body may differ, by method, path and a word of the body. Its status may differ
only from 500."""


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDING.read_text())
    return found


@pytest.fixture(scope="module")
def seen(node: MirrorMQ) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(observe(node.amqp_port, node.management_port)))
    return found


OUR_OWN = frozenset({"mirrormq"})
"""Fields that RabbitMQ does not have."""


def ignored(name: str) -> bool:
    plain = name.removesuffix("_details")
    return name in OUR_OWN or plain in ERLANG or plain in NOT_MEASURED or name in DETAILS_NOT_MEASURED


def comparable(path: str, shape: Any) -> Any:
    """Return a shape without the fields above; shapes in lists that become equal count once."""
    if isinstance(shape, dict):
        return {key: comparable(path, inner) for key, inner in shape.items() if not ignored(key)}
    if isinstance(shape, list):
        found: list[Any] = []
        for inner in shape:
            if (cut := comparable(path, inner)) not in found:
                found.append(cut)
        return sorted(found, key=json.dumps)
    return shape


def test_every_get_has_the_same_status(recorded: dict[str, Any], seen: dict[str, Any]) -> None:
    ours = {path: found[0] for path, found in seen["shapes"].items()}
    assert ours == {path: found[0] for path, found in recorded["shapes"].items()}


SHAPES: list[str] = sorted(json.loads(RECORDING.read_text())["shapes"])


@pytest.mark.parametrize("path", SHAPES)
def test_a_get_has_the_same_keys_and_types(path: str, recorded: dict[str, Any], seen: dict[str, Any]) -> None:
    assert comparable(path, seen["shapes"][path][1]) == comparable(path, recorded["shapes"][path][1])


def test_sorting_and_columns_are_the_same(recorded: dict[str, Any], seen: dict[str, Any]) -> None:
    assert seen["orders"] == recorded["orders"]


def words_may_differ(method: str, path: str, body: Any) -> bool:
    text = body.decode() if isinstance(body, bytes) else json.dumps(body)
    return any(
        (method, path) == (of_method, of_path) and word in text for of_method, of_path, word in OUR_OWN_WORDS
    )


def in_order(answer: Any) -> Any:
    """Sort the exported lists, which RabbitMQ writes in no order."""
    if isinstance(answer, dict):
        return {key: in_order(value) for key, value in answer.items()}
    if isinstance(answer, list):
        return sorted(
            (in_order(value) for value in answer), key=lambda each: json.dumps(each, sort_keys=True)
        )
    return answer


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_request_is_answered_as_rabbitmq_answers_it(
    number: int, recorded: dict[str, Any], seen: dict[str, Any]
) -> None:
    _, method, path, body = CASES[number]
    theirs, ours = recorded["answers"][number], seen["answers"][number]
    assert theirs[:3] == list(CASES[number][:3]), "the recording is older than the cases: record anew"
    if words_may_differ(method, path, body):
        assert ours[3] == theirs[3] or theirs[3] == 500
        return
    if theirs[3] == 500:
        assert ours[3] in (400, 404), "RabbitMQ's handler crashes at a client's mistake"
        return
    if path.startswith(("definitions", "channels")):
        theirs, ours = in_order(theirs), in_order(ours)
    assert ours == theirs


@pytest.mark.rabbitmq
@pytest.mark.slow
def test_the_recording_is_what_rabbitmq_shows(recorded: dict[str, Any]) -> None:
    need_rabbitmq()
    with RabbitMQ(configuration=WITH_STATISTICS) as broker:
        shown = json.loads(json.dumps(observe(broker.amqp_port, broker.management_port)))
    assert [found[3] for found in shown["answers"]] == [found[3] for found in recorded["answers"]]
    assert shown["orders"] == recorded["orders"]
    assert shown["shapes"].keys() == recorded["shapes"].keys()
