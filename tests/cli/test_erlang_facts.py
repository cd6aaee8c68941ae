"""Erlang terms of `cluster_status` and `listeners`: RabbitMQ's JSON facts give exactly the text of
RabbitMQ's tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mirrormq.cli.erlang_format import Atom, Chars, written
from mirrormq.cli.erlang_status import cluster_status, listeners
from mirrormq.testing import Cluster
from tests.cli import facts_scene
from tests.cli.test_live import ctl
from tests.needs import need_rabbitmq

RECORDED: dict[str, str] = json.loads(facts_scene.RECORDED.read_text())
HTTP = [
    (Atom("cowboy_opts"), [(Atom("sendfile"), False)]),
    (Atom("ip"), Chars("127.0.0.1")),
    (Atom("port"), int(facts_scene.PORTS[1])),
]
AMQP = [
    (Atom("backlog"), 128),
    (Atom("nodelay"), True),
    (Atom("linger"), (True, 0)),
    (Atom("exit_on_close"), False),
]
OPTIONS: dict[str, list[Any]] = {"http": HTTP, "amqp": AMQP, "clustering": []}
"""Socket options of RabbitMQ's listeners; its JSON omits them, and a MirrorMQ node shows none."""


def test_listeners_are_rabbitmqs() -> None:
    rows = json.loads(RECORDED["listeners json"])["listeners"]
    assert written(listeners(rows)) == RECORDED["listeners erlang"]


def test_a_clusters_status_is_rabbitmqs() -> None:
    terms = cluster_status(json.loads(RECORDED["cluster_status json"]))
    (place,) = [at for at, (name, _) in enumerate(terms) if name == "listeners"]
    ((node, records),) = terms[place][1]
    reported = []
    for *whose, host, address, port, _ in records:
        # For a listener on all interfaces RabbitMQ shows the machine's name, MirrorMQ the host in the node's
        # name.
        shown = host if any(address) else Chars(facts_scene.MACHINE)
        reported.append((*whose, shown, address, port, OPTIONS[whose[2]]))
    terms[place] = (Atom("listeners"), [(node, reported)])
    assert written(terms) == RECORDED["cluster_status erlang"]


def test_a_node_writes_them() -> None:
    with Cluster(nodes=1) as cluster:
        name = written(Atom(cluster.name(0)))
        code, out, _ = ctl("-q", "-n", cluster.name(0), "cluster_status", "--formatter", "erlang")
        assert code == 0 and out.startswith(f"[{{nodes,[{{disc,[{name}]}}]}},\n {{running_nodes,[{name}]}}")
        assert (
            f'{{listener,{name},amqp,"localhost",' in out
            and "{127,0,0,1}," in out
            and "#{mirrormq_version =>" in out
        )
        code, out, _ = ctl("-q", "-n", cluster.name(0), "listeners", "--formatter", "erlang")
        assert code == 0 and out.startswith(f"[[{{node,{name}}},\n  {{protocol,")


@pytest.mark.rabbitmq
@pytest.mark.slow
def test_the_recording_equals_rabbitmqs_answers() -> None:
    need_rabbitmq()

    def words(texts: dict[str, str]) -> dict[str, str]:
        """Return the words of a text: another machine's name may break lines at other places."""
        return {name: "".join(text.split()) for name, text in texts.items()}

    assert words(facts_scene.record()) == words(RECORDED)
