"""Comparison with RabbitMQ's exporter: every metric with a meaning here exists, with its type and labels.

`recorded.json` is the record of a real RabbitMQ (`python -m tests.metrics.record` writes it). Missing
metrics, and metrics with fewer labels, are listed by name, so that no other can be missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from fnmatch import fnmatchcase

import pytest

from mirrormq.management.metrics.metric_names import METRICS
from tests.brokers.mirrormq import MirrorMQ
from tests.management.conftest import managed
from tests.metrics.record import PATHS, RECORDING, observe
from tests.metrics.scene import Exposition, scrape, worked
from tests.needs import need_rabbitmq

RECORDED = json.loads(RECORDING.read_text())

NOT_HERE = {
    "erlang_*": "Erlang's machine",
    "rabbitmq_erlang_gc_*": "Erlang's machine",
    "rabbitmq_erlang_processes_*": "Erlang's machine",
    "rabbitmq_erlang_scheduler_*": "Erlang's machine",
    "rabbitmq_*_process_reductions_total": "Erlang's machine",
    "rabbitmq_detailed_erlang_gc_*": "Erlang's machine",
    "rabbitmq_detailed_erlang_processes_*": "Erlang's machine",
    "rabbitmq_detailed_erlang_scheduler_*": "Erlang's machine",
    "rabbitmq_detailed_schema_db_*": "Mnesia",
    "rabbitmq_detailed_queue_index_*": "there is no index beside the journal",
    "rabbitmq_detailed_io_seek_*": "the journal is read and written at places, without seeking",
    "rabbitmq_detailed_io_reopen_ops_total": "files stay open",
    "rabbitmq_raft_*": "Raft of quorum queues",
    "rabbitmq_global_messages_dead_lettered_confirmed_total": "quorum queues",
    "rabbitmq_global_messages_dead_lettered_delivery_limit_total": "quorum queues",
    "rabbitmq_schema_db_*": "Mnesia",
    "rabbitmq_queue_index_*": "there is no index beside the journal",
    "rabbitmq_io_seek_*": "the journal is read and written at places, without seeking",
    "rabbitmq_io_reopen_ops_total": "files stay open",
    "telemetry_scrape_*": "the Erlang exporter's own",
    "rabbitmq_auth_attempts_detailed_*": "off in RabbitMQ too, unless asked for",
}

SUMMED_HERE = {"rabbitmq_queue_messages_persistent_bytes"}
"""Metrics that RabbitMQ lists in `/metrics` without a number."""

MORE_LABELS = {"rabbitmq_build_info": {"mirrormq_version"}}


def has_meaning(name: str) -> bool:
    return not any(fnmatchcase(name, pattern) for pattern in NOT_HERE)


@pytest.fixture(scope="module")
def node() -> Iterator[MirrorMQ]:
    with managed() as broker:
        connection = worked(broker.amqp_port)
        yield broker
        connection.close()


@pytest.fixture(scope="module")
def reported(node: MirrorMQ) -> dict[str, Exposition]:
    return {path: scrape(node.management_port, path) for path in PATHS}


WANTED = [(path, name) for path in PATHS for name in RECORDED[path] if has_meaning(name)]


@pytest.mark.parametrize("path", PATHS)
def test_every_metric_of_rabbitmq_is_here_with_its_type_and_labels(
    path: str, reported: dict[str, Exposition]
) -> None:
    ours, differ = reported[path].shape(), {}
    for name in [name for where, name in WANTED if where == path]:
        kind, *labels = RECORDED[path][name]
        if path == "/metrics" and name in SUMMED_HERE:
            assert not labels
            labels = [[]]
        found_kind, *found = ours.get(name, [["absent"]])
        found = [sorted(set(each) - MORE_LABELS.get(name, set())) for each in found]
        if (found_kind, found) != (kind, labels):
            differ[name] = {"here": (found_kind, found), "RabbitMQ": (kind, labels)}
    assert not differ


def test_metrics_listed_as_missing_are_missing(reported: dict[str, Exposition]) -> None:
    """Check the list of exceptions: an obsolete one would hide the next gap."""
    recorded = {name for path in PATHS for name in RECORDED[path]}
    for pattern in NOT_HERE:
        assert any(fnmatchcase(name, pattern) for name in recorded), pattern
        assert not [name for path in PATHS for name in reported[path].types if fnmatchcase(name, pattern)]


def test_nothing_is_called_rabbitmq_that_rabbitmq_does_not_have(reported: dict[str, Exposition]) -> None:
    recorded = {name for path in PATHS for name in RECORDED[path]}
    ours = {name for path in PATHS for name in reported[path].types if name.startswith("rabbitmq_")}
    assert ours <= recorded
    here = {name.replace("_detailed", "") for path in PATHS for name in reported[path].types}
    assert here == METRICS.keys() - ONLY_IN_A_CLUSTER


ONLY_IN_A_CLUSTER = {"mirrormq_ring_epoch"}
"""Metrics per ring; a single node has none."""


def test_the_numbers_are_those_of_the_work(reported: dict[str, Exposition]) -> None:
    """Check the counters of this work: three messages published to a queue, one dropped, one returned; one
    got and acknowledged, one got and requeued, then got again, one with a consumer."""
    found = reported["/metrics"]
    for name, value in {
        "rabbitmq_channel_messages_published_total": 5, "rabbitmq_channel_messages_confirmed_total": 5,
        "rabbitmq_channel_messages_unroutable_dropped_total": 1,
        "rabbitmq_channel_messages_unroutable_returned_total": 1,
        "rabbitmq_global_messages_received_total": 5, "rabbitmq_global_messages_routed_total": 3,
        "rabbitmq_global_messages_acknowledged_total": 1, "rabbitmq_global_messages_redelivered_total": 1,
        "rabbitmq_channel_get_ack_total": 2, "rabbitmq_channel_get_total": 1,
        "rabbitmq_channel_get_empty_total": 1, "rabbitmq_channel_messages_delivered_ack_total": 1,
        "rabbitmq_queue_messages": 1, "rabbitmq_queue_messages_unacked": 1,
        "rabbitmq_queue_messages_ready": 0, "rabbitmq_queue_consumers": 2, "rabbitmq_queues": 2,
        "rabbitmq_connections": 1, "rabbitmq_channels": 2, "rabbitmq_global_consumers": 2,
        "rabbitmq_global_publishers": 1, "rabbitmq_queues_created_total": 2,
    }.items():  # fmt: skip
        assert (name, found.values(name)) == (name, [value])
    assert found.values("rabbitmq_auth_attempts_succeeded_total", protocol="amqp091") == [1]
    each = reported["/metrics/per-object"]
    assert each.values("rabbitmq_queue_messages_unacked", queue="work", vhost="/") == [1]
    assert each.values("rabbitmq_queue_messages_unacked", queue="nothing") == [0]


def test_each_channel_shows_its_counts_by_exchange_and_by_queue(reported: dict[str, Exposition]) -> None:
    each = reported["/metrics/per-object"]
    for name, value in {
        "messages_published_total": 5, "messages_confirmed_total": 5,
        "messages_unroutable_dropped_total": 1, "messages_unroutable_returned_total": 1,
    }.items():  # fmt: skip
        assert (name, each.values(f"rabbitmq_channel_{name}", exchange="in", vhost="/")) == (name, [value])
    for name, value in {
        "get_ack_total": 2, "get_total": 1, "get_empty_total": 0, "messages_delivered_ack_total": 1,
        "messages_delivered_total": 0, "messages_redelivered_total": 1, "messages_acked_total": 1,
    }.items():  # fmt: skip
        assert (name, each.values(f"rabbitmq_channel_{name}", queue="work", vhost="/")) == (name, [value])
    assert each.values("rabbitmq_channel_get_empty_total", queue="nothing") == [1]
    route = {"queue": "work", "queue_vhost": "/", "exchange": "in", "exchange_vhost": "/"}
    assert each.values("rabbitmq_queue_messages_published_total", **route) == [3]


def test_a_queue_shows_its_messages_in_memory_and_on_disk(reported: dict[str, Exposition]) -> None:
    """Check the memory and disk figures: one message of five bytes is with a consumer, and three were
    written."""
    each = reported["/metrics/per-object"]
    for name, value in {
        "messages_ram": 1, "messages_ram_bytes": 5, "messages_ready_ram": 0, "messages_unacked_ram": 1,
        "messages_persistent": 1, "messages_persistent_bytes": 5, "messages_paged_out": 0,
        "disk_reads_total": 0, "disk_writes_total": 3,
    }.items():  # fmt: skip
        assert (name, each.values(f"rabbitmq_queue_{name}", queue="work")) == (name, [value])
    (share,) = each.values("rabbitmq_queue_consumer_capacity", queue="work")
    assert 0.9 < share <= 1.0
    (timestamp,) = each.values("rabbitmq_queue_head_message_timestamp", queue="work")
    assert math.isnan(timestamp)


def test_families_are_listed_alone_and_queues_by_vhost(node: MirrorMQ) -> None:
    def names(query: str) -> set[str]:
        found = scrape(node.management_port, f"/metrics/detailed{query}")
        return {sample.name for sample in found.samples}

    always = {"rabbitmq_build_info", "rabbitmq_identity_info"}
    assert names("") == names("?family=bogus") == names("?vhost=%2F") == always
    depths = {f"rabbitmq_detailed_queue_messages{part}" for part in ("", "_ready", "_unacked")}
    assert names("?family=queue_coarse_metrics") == always | depths
    assert names("?family=queue_coarse_metrics&vhost=%2F") == always | depths
    assert names("?family=queue_coarse_metrics&vhost=nowhere") == always
    both = names("?family=queue_coarse_metrics&family=queue_consumer_count")
    assert both == always | depths | {"rabbitmq_detailed_queue_consumers"}


def test_the_histogram_of_syncs_adds_up(reported: dict[str, Exposition]) -> None:
    found = reported["/metrics"]
    buckets = [s for s in found.samples if s.name == "mirrormq_fsync_duration_seconds_bucket"]
    counts = [sample.value for sample in buckets]
    assert counts == sorted(counts) and buckets[-1].labels == {"le": "+Inf"}
    assert found.values("mirrormq_fsync_duration_seconds_count") == [counts[-1]]
    assert counts[-1] == found.values("rabbitmq_io_sync_ops_total")[0] > 0
    assert 0 < found.values("mirrormq_fsync_duration_seconds_sum")[0] < 60


@pytest.mark.rabbitmq
@pytest.mark.slow
def test_the_recording_equals_rabbitmqs_answers() -> None:
    need_rabbitmq()
    seen = observe()
    for path in PATHS:
        names = [name for name in RECORDED[path] if has_meaning(name)]
        assert {name: seen[path].get(name) for name in names} == {
            name: RECORDED[path][name] for name in names
        }
