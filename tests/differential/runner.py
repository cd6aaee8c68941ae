"""Registers scripts and runs them on a broker, several at a time where they allow it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, overload

from tests.brokers.admin import Admin
from tests.differential.client import Stopped
from tests.differential.context import Context

WORKERS = 4
"""Scripts wait for replies and TTLs most of the time; more at once gains nothing on two cores."""
TRANSCRIPTS = Path(__file__).parent / "transcripts"

Body = Callable[[Context], None]


class Broker(Protocol):
    """Common interface of the launchers in tests/brokers."""

    amqp_port: int
    node_name: str


@dataclass(frozen=True)
class Script:
    """One registered script."""

    name: str
    subject: str
    body: Body
    alone: bool
    """Touches the whole broker (memory alarm, events of everybody): runs when nothing else does."""

    @property
    def vhost(self) -> str:
        return self.name


SCRIPTS: dict[str, Script] = {}


@overload
def script(body: Body) -> Body: ...
@overload
def script(*, name: str = "", alone: bool = False) -> Callable[[Body], Body]: ...
def script(body: Body | None = None, *, name: str = "", alone: bool = False) -> Any:
    """Register a script under its function's name, or under `name` where a loop makes several."""

    def register(body: Body) -> Body:
        known_as = name or body.__name__
        assert known_as not in SCRIPTS, f"two scripts are called {known_as}"
        SCRIPTS[known_as] = Script(known_as, body.__module__.rpartition(".")[2], body, alone)
        return body

    return register if body is None else register(body)


def run(scripts: Iterable[Script], broker: Broker, admin: Admin) -> dict[str, str]:
    """Each script's transcript by its name."""
    chosen = list(scripts)
    admin.prepare([one.vhost for one in chosen])
    with ThreadPoolExecutor(WORKERS) as pool:
        together = [one for one in chosen if not one.alone]
        texts = pool.map(lambda one: run_one(one, broker, admin), together)
        done = {one.name: text for one, text in zip(together, texts, strict=True)}
    return done | {one.name: run_one(one, broker, admin) for one in chosen if one.alone}


def run_one(one: Script, broker: Broker, admin: Admin) -> str:
    admin.enter(one.vhost)
    context = Context(one.vhost, broker.amqp_port, broker.node_name, admin)
    try:
        one.body(context)
        context.finish()
    except Stopped as reason:
        context.transcript.add(f"STOPPED {reason}")
    except Exception as error:
        context.transcript.add(f"FAILED {type(error).__name__}: {error}")
    finally:
        context.close()
        admin.leave(one.vhost)
    return context.transcript.text()


def read_recorded() -> dict[str, str]:
    """The transcripts kept in the repository, by script."""
    found: dict[str, str] = {}
    for path in sorted(TRANSCRIPTS.glob("*.txt")):
        for section in path.read_text().split("=== ")[1:]:
            name, _, text = section.partition("\n")
            found[name] = text.rstrip("\n") + "\n"
    return found


def write_recorded(transcripts: dict[str, str]) -> None:
    """One file per subject, scripts in their order of definition; other scripts' sections stay."""
    merged = read_recorded() | transcripts
    for subject in sorted({one.subject for one in SCRIPTS.values()}):
        sections = [
            f"=== {one.name}\n{merged[one.name]}"
            for one in SCRIPTS.values()
            if one.subject == subject and one.name in merged
        ]
        (TRANSCRIPTS / f"{subject}.txt").write_text("\n".join(sections))
