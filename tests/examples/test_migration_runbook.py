"""Run the commands of docs/migration.md in their order, between a real RabbitMQ cluster and a real MirrorMQ.

Only addresses and directories are replaced.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrormq.testing import Cluster
from tests.bridge_processes.broker_messages import drain, publish
from tests.brokers.rabbitmq_pair import RabbitPair
from tests.migration_processes.migration_stand import MigrationStand
from tests.needs import need_rabbitmq
from tests.test_tidy import ROOT

DEFAULTS = """\
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
"""

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow, pytest.mark.timeout(900)]


def runbook(name: str) -> tuple[list[str], str]:
    """Commands of a document in order, and its configuration of HAProxy."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "docs" / name).read_text())
    (proxy,) = re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"^ {4}(mirrormq .*)$", text, re.MULTILINE), proxy


def test_both_languages_have_the_same_commands_and_configuration() -> None:
    assert runbook("migration.md") == runbook("migration.zh.md")


class DocumentedStand(MigrationStand):
    """Stand whose HAProxy has the document's configuration."""

    def proxy_text(self) -> str:
        text = runbook("migration.md")[1]
        for old, new in {**self.replaced(), ":5670": f"127.0.0.1:{self.consumer_port}"}.items():
            text = text.replace(old, new)
        text = text.replace("bind :5671", f"bind 127.0.0.1:{self.producer_port}")
        return text.replace("frontend", DEFAULTS + "frontend", 1)

    def replaced(self) -> dict[str, str]:
        """Return the addresses of the document, with those of this machine."""
        found = {"/run/haproxy/admin.sock": str(self.socket)}
        for n in (0, 1):
            found[f"admin:secret@blue{n + 1}:15672"] = (
                f"guest:guest@127.0.0.1:{self.blue.nodes[n].management_port}"
            )
            found[f"admin:secret@green{n + 1}:15672"] = (
                f"guest:guest@127.0.0.1:{self.green.management_port(n)}"
            )
            found[f"admin:secret@blue{n + 1}:5672"] = f"guest:guest@127.0.0.1:{self.blue.port(n)}"
            found[f"admin:secret@green{n + 1}:5672"] = f"guest:guest@127.0.0.1:{self.green.port(n)}"
            found[f"blue{n + 1}:5672"] = f"127.0.0.1:{self.blue.port(n)}"
            found[f"green{n + 1}:5672"] = f"127.0.0.1:{self.green.port(n)}"
        return found


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[DocumentedStand]:
    need_rabbitmq()
    with RabbitPair() as blue, Cluster(nodes=2, mirror_all=True) as green:
        blue.mirror_all()
        made = DocumentedStand(tmp_path, blue, green)
        with made.proxy():
            try:
                yield made
            finally:
                made.stop()


def test_the_runbook(stand: DocumentedStand) -> None:
    bodies = [str(number) for number in range(500)]
    publish(stand.blue.port(0), "orders", bodies)
    commands = runbook("migration.md")[0]
    steps = [shlex.split(command)[2:] for command in commands if command.startswith("mirrormq migrate")]
    plan, run, *others, rollback = steps
    assert [words[0] for words in (plan, run, rollback)] == ["plan", "run", "rollback"]
    replaced = stand.replaced()
    stand.command(*(_replace(word, replaced) for word in plan))
    assert run == ["run"]
    stand.start()
    stand.await_phase("following")
    for words in others:
        stand.command(*words)
    assert stand.phase() == "finished"
    assert [body for body, _ in drain(stand.green.port(1), "orders")] == bodies


def _replace(word: str, replaced: dict[str, str]) -> str:
    for old, new in replaced.items():
        word = word.replace(old, new)
    return word
