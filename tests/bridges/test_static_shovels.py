"""Static shovels: keys of the settings file become definitions, faults one sentence without secrets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mirrormq.bridges.link_plan import AckMode
from mirrormq.bridges.shovel_parameters import ShovelDefinition
from mirrormq.bridges.shovel_plan import forward_entry
from mirrormq.bridges.static_shovels import KEYS, TABLES, URI_KEYS, shovel_definitions
from mirrormq.config.settings import Settings
from mirrormq.config.settings_display import shown_settings
from mirrormq.config.settings_loader import load_settings
from mirrormq.errors import ConfigurationError
from tests.test_tidy import ROOT

LEAST = """
shovel.s.src-uri = amqp://
shovel.s.src-queue = from
shovel.s.dest-uri = amqp://u:s3cret@there
"""


def settings_of(text: str, tmp_path: Path) -> Settings:
    file = tmp_path / "node.conf"
    file.write_text(text)
    return load_settings(environment={}, conf=file)


def definitions_of(text: str, tmp_path: Path) -> dict[str, ShovelDefinition]:
    return shovel_definitions(settings_of(text, tmp_path).static_shovels)


def test_the_least_definition_has_the_defaults_of_dynamic_shovels(tmp_path: Path) -> None:
    assert definitions_of(LEAST, tmp_path) == {
        "s": ShovelDefinition(("amqp://",), ("amqp://u:s3cret@there",), source_queue="from")
    }


def test_every_key_has_its_type(tmp_path: Path) -> None:
    text = """
        shovel.a\\.b.src-uri.10 = amqp://ten
        shovel.a\\.b.src-uri.9 = amqp://nine
        shovel.a\\.b.dest-uri = amqp://
        shovel.a\\.b.src-exchange = amq.topic
        shovel.a\\.b.src-exchange-key = 'k.# '
        shovel.a\\.b.src-protocol = amqp091
        shovel.a\\.b.src-prefetch-count = 7
        shovel.a\\.b.src-delete-after = never
        shovel.a\\.b.src-consumer-args.x-priority = -1
        shovel.a\\.b.dest-queue = 12
        shovel.a\\.b.dest-queue-args.x-max-length = 10
        shovel.a\\.b.dest-queue-args.x-overflow = reject-publish
        shovel.a\\.b.dest-queue-args.x-single-active-consumer = true
        shovel.a\\.b.dest-publish-properties.app_id = 5
        shovel.a\\.b.dest-publish-properties.delivery_mode = 2
        shovel.a\\.b.dest-publish-properties.headers.x-origin = here
        shovel.a\\.b.src-predeclared = true
        shovel.a\\.b.src-consumer-name = mover
        shovel.a\\.b.dest-predeclared = true
        shovel.a\\.b.dest-unroutable = drop
        shovel.a\\.b.dest-add-forward-headers = true
        shovel.a\\.b.ack-mode = on-publish
        shovel.a\\.b.reconnect-delay = 0.5
    """
    assert definitions_of(text, tmp_path) == {
        "a.b": ShovelDefinition(
            ("amqp://nine", "amqp://ten"),
            ("amqp://",),
            source_exchange="amq.topic",
            source_exchange_key="k.# ",
            consumer_arguments={"x-priority": -1},
            prefetch=7,
            destination_queue="12",
            destination_queue_arguments={
                "x-max-length": 10, "x-overflow": "reject-publish", "x-single-active-consumer": True,
            },
            publish_properties={"app_id": "5", "delivery_mode": 2, "headers": {"x-origin": "here"}},
            source_predeclared=True,
            consumer_tag="mover",
            destination_predeclared=True,
            drops_unroutable=True,
            add_forward_headers=True,
            ack_mode=AckMode.ON_PUBLISH,
            reconnect_delay_s=0.5,
        )
    }  # fmt: skip


FAULTS = {
    "shovel.s.src-queu = q": "unknown key shovel.s.src-queu; the nearest known key is shovel.s.src-queue.",
    "shovel.s = q": "write shovel.s as shovel.NAME.KEY, such as shovel.archive.src-queue.",
    "shovel.s.src-prefetch-count = many": "must be a whole number of at least 0, not `many`.",
    "shovel.s.dest-uri = u:s3cret@there": "shovel.s.dest-uri must be a URI such as amqp://user:password@host",
    "shovel.s.dest-uri = http://u:s3cret@there": "shovel.s.dest-uri must be a URI such as",
    "shovel.s.dest-uri.first = amqp://": "write shovel.s.dest-uri.first as shovel.s.dest-uri, or as",
    "shovel.s.dest-uri amqp://u:s3cret@there": "expected `key = value`, found `shovel.s.dest-uri …`.",
    "shovel.s.src-delete-after = queue-length": "must be never (a shovel that ends is a parameter",
    "shovel.s.ack-mode = on_confirm": "must be one of on-confirm, on-publish, no-ack, not `on_confirm`.",
    "shovel.s.src-protocol = amqp10": "must be amqp091, not `amqp10`.",
    "shovel.s.dest-publish-properties.headers = x": "unknown key shovel.s.dest-publish-properties.headers",
    "shovel.s.dest-unroutable = lose": "must be one of keep, drop, not `lose`.",
    "shovel.s.src-exchange = x": "set shovel.s.src-queue or shovel.s.src-exchange, not both.",
    "shovel.s.src-queue-args = x": "unknown key shovel.s.src-queue-args; the nearest known key is",
    "shovel.s.src-queue-args.x-max-length = x": "must be a whole number, not `x`.",
    "shovel.s.dest-add-forward-headers = 1": "must be true or false, not `1`.",
    "shovel.s.reconnect-delay = -1": "must be a number of seconds of at least 0, not `-1`.",
    f"shovel.s.dest-queue = {256 * 'q'}": "shovel.s: dest-queue should be less than 255 bytes",
    "shovel.t.src-queue = q": "shovel.t needs shovel.t.src-uri = amqp://user:password@host:port/vhost.",
    "shovel.t.src-uri = amqp://\nshovel.t.dest-uri = amqp://": "needs shovel.t.src-queue or shovel.t.src-exc",
}


@pytest.mark.parametrize("line", FAULTS)
def test_a_fault_is_one_sentence_with_key_and_remedy(line: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        definitions_of(LEAST + line, tmp_path)
    text = str(refused.value)
    assert FAULTS[line] in text and "node.conf:" in text and "\n" not in text
    assert "s3cret" not in text


def test_shown_settings_have_no_uris(tmp_path: Path) -> None:
    settings = settings_of(LEAST, tmp_path)
    for text in (repr(settings), str(shown_settings(settings)), repr(settings.static_shovels)):
        assert "s3cret" not in text
    assert settings.static_shovel_names == ("s",)


def test_the_last_line_of_a_key_counts(tmp_path: Path) -> None:
    assert definitions_of(LEAST + "shovel.s.src-queue = other", tmp_path)["s"].source_queue == "other"


def test_a_definition_survives_an_unrelated_change(tmp_path: Path) -> None:
    settings = settings_of(LEAST, tmp_path)
    assert replace(settings, heartbeat_s=7).static_shovels == settings.static_shovels


def test_forward_header_of_a_static_shovel_is_rabbitmqs(tmp_path: Path) -> None:
    entry = forward_entry(definitions_of(LEAST, tmp_path)["s"], "", "s", "here", "amqp://", "amqp://there")
    assert {name: field.value for name, field in entry.items()} == {
        "shovelled-by": b"here", "shovel-type": b"static", "shovel-name": b"s", "src-uri": b"amqp://",
        "dest-uri": b"amqp://there",
    }  # fmt: skip


def test_every_key_is_documented() -> None:
    text = (ROOT / "docs" / "bridges.md").read_text()
    assert [key for key in (*KEYS, *TABLES, *URI_KEYS) if f"`{key}`" not in text] == []


def test_the_lines_to_copy_are_a_definition(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "bridges.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("    shovel.archive.")]
    definition = definitions_of("\n".join(lines), tmp_path)["archive"]
    assert (definition.source_queue, len(definition.destination_uris)) == ("orders", 2)
