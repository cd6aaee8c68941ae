"""Build of the message core: compiled or pure.

The modules of `CORE_MODULES` handle every message. mypyc compiles them as one group (`compile_core.py`), and
the same files run interpreted. The compiled files are in the folder `_compiled`, never beside their sources.
They are used only if no source has changed since: the folder has a digest of the core modules and of
everything that these import. After a change the pure build runs until the core is compiled again.

The environment variable MIRRORMQ_BUILD overrides the choice: `pure` ignores the compiled build, and
`compiled` refuses to start without a current one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from os import environ
from pathlib import Path
from types import ModuleType

_MODULES_BY_PACKAGE = {
    "wire": "frames content header_walk runs large_bodies properties",
    "connections": "states scanner connection direct_connection",
    "channels": "channel publishing routes confirm_ledger consumer consumer_methods acknowledgements unacked "
    "assembly transactions",
    "queues": "message envelope queue publish_intake confirm_tracker consumer_turns expiry redelivery "
    "dead_lettering deduplication pages leased_pages paged_queue queue_host memory_budget memory_use "
    "queue_settings turn_work kept_deliveries overtaken",
    "storage": "journal journal_records journal_writer queue_store position_table segments disk disk_stats "
    "damage message_reader",
    "broker": "broker channel_states connection_base outbox traffic_counters",
    "replication": "copy_reports replica_manager replica ring member_states operation_log common_history lag "
    "replicating_backing mirror_copy mirror_sync",
    "peers": "framing lanes stream",
    "remote": "remote_endpoint served_queues",
    "runtime": "amqp_socket client_sockets turn_loop",
    "events": "log_buffer",
    "sequences": "spans",
}
CORE_MODULES = frozenset(
    f"mirrormq.{package}.{name}" for package, names in _MODULES_BY_PACKAGE.items() for name in names.split()
) | {"mirrormq.clock"}
"""Modules that are compiled. They import no msgspec or asyncio."""

GROUP = "mirrormq_core__mypyc"
"""Module with the machine code of the whole group, by mypyc's naming rule."""

SOURCE_ROOT = Path(__file__).parent.parent
COMPILED = Path(__file__).parent / "_compiled"
DIGEST_FILE = "sources.txt"
"""Digest of the compiled sources, then their names, one per line."""

PURE, COMPILED_ONLY, EITHER = "pure", "compiled", ""


class BuildUnavailable(ImportError):
    """Error for a build that was demanded and cannot run."""


def compiled_file(folder: Path, name: str) -> Path:
    """Return the file of a compiled module for the running interpreter."""
    return folder / f"{name}{EXTENSION_SUFFIXES[0]}"


def digest_of(sources: Iterable[str], root: Path = SOURCE_ROOT) -> str:
    """Return the digest of source files, which are named relative to the root."""
    from hashlib import blake2b

    digest = blake2b(digest_size=16)
    for source in sources:
        content = (root / source).read_bytes()
        digest.update(f"{source} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def problem_of(folder: Path, root: Path = SOURCE_ROOT) -> str | None:
    """Return the reason why the compiled build in a folder cannot run; None if it can."""
    try:
        recorded, *sources = (folder / DIGEST_FILE).read_text().split()
    except (OSError, ValueError):
        return "not compiled"
    if not all(compiled_file(folder, name).exists() for name in (GROUP, *CORE_MODULES)):
        return "compiled for another Python, or other modules"
    try:
        return None if digest_of(sources, root) == recorded else "a source has changed since it was compiled"
    except OSError:
        return "a source is missing"


class BuildChoice:
    """Finder of compiled modules for the import system. Chooses the build at the first import of the core."""

    def __init__(self, demanded: str) -> None:
        self.demanded = demanded
        self._problem: str | None = None
        self._chosen: str | None = None

    @property
    def name(self) -> str:
        """Build that runs: `compiled` or `pure`."""
        if self._chosen is None:
            self._chosen = self._choose()
        return self._chosen

    @property
    def description(self) -> str:
        """Build that runs; if it is pure and not demanded, with the reason."""
        name = self.name
        return f"{name} ({self._problem})" if self._problem and not self.demanded else name

    def _choose(self) -> str:
        if self.demanded == PURE:
            return PURE
        self._problem = problem_of(COMPILED)
        if self._problem is None:
            return COMPILED_ONLY
        if self.demanded == COMPILED_ONLY:
            raise BuildUnavailable(
                f"MIRRORMQ_BUILD demands the compiled message core: {self._problem}. "
                "In a checkout run make compile; elsewhere MIRRORMQ_COMPILE=1 pip install mirrormq"
            )
        return PURE

    def demand(self, build: str) -> None:
        """Demand a build; raise BuildUnavailable if the other one is loaded already."""
        if self._chosen is not None and self._chosen != build:
            raise BuildUnavailable(f"the {self._chosen} message core is loaded already")
        self.demanded = build

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the compiled module of a name, or None to leave the import to the next finder."""
        if (name not in CORE_MODULES and name != GROUP) or self.name == PURE:
            return None
        file = str(compiled_file(COMPILED, name))
        spec = ModuleSpec(name, ExtensionFileLoader(name, file), origin=file)
        spec.has_location = True
        return spec


choice = BuildChoice(environ.get("MIRRORMQ_BUILD", EITHER))


def install() -> None:
    """Let the import system ask `choice` first."""
    if choice not in sys.meta_path:
        sys.meta_path.insert(0, choice)
