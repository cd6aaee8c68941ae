"""Runs the chosen scripts once on both brokers, side by side, before the first comparison."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tests.brokers.rabbitmq import VERSION, RabbitMQ
from tests.differential.judges import run_on_mirrormq, run_on_rabbitmq
from tests.differential.runner import SCRIPTS, Script, read_recorded

_judge = pytest.StashKey[str]()


@dataclass
class Transcripts:
    """By script name."""

    mirrormq: dict[str, str]
    judge: dict[str, str]
    judge_name: str
    kept: dict[str, str]


@pytest.fixture(scope="session")
def transcripts(request: pytest.FixtureRequest) -> Transcripts:
    chosen = _chosen(request.session)
    kept = read_recorded()
    with ThreadPoolExecutor(2) as pool:
        mirrormq = pool.submit(run_on_mirrormq, chosen)
        if RabbitMQ.available():
            request.config.stash[_judge] = f"a live RabbitMQ {VERSION}"
            judge = pool.submit(run_on_rabbitmq, chosen).result()
        else:
            request.config.stash[_judge] = (
                f"transcripts recorded from RabbitMQ {VERSION}, which is not installed here"
            )
            judge = {one.name: kept.get(one.name, "") for one in chosen}
        return Transcripts(mirrormq.result(), judge, "RabbitMQ", kept)


def _chosen(session: pytest.Session) -> list[Script]:
    """The scripts whose comparisons were selected; `-k` runs only what it names."""
    names = {
        item.callspec.params["name"]
        for item in session.items
        if isinstance(item, pytest.Function)
        and hasattr(item, "callspec")
        and "transcripts" in item.fixturenames
    }
    return [one for one in SCRIPTS.values() if one.name in names]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if _judge in config.stash:
        terminalreporter.write_line(f"Differential tests compared MirrorMQ with {config.stash[_judge]}.")
