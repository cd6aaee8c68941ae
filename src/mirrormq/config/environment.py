"""Settings from MIRRORMQ_* variables.

A variable is `MIRRORMQ_` and the key in capitals, with each dot written as two underscores.

    heartbeat                    MIRRORMQ_HEARTBEAT
    listeners.tcp.default        MIRRORMQ_LISTENERS__TCP__DEFAULT
    loopback_users.guest         MIRRORMQ_LOOPBACK_USERS__GUEST

One underscore per dot is accepted as well if only one key fits
(MIRRORMQ_VM_MEMORY_HIGH_WATERMARK_RELATIVE). The last word of a family is lower case.

A variable that names no key is not an error, unlike a line in the file: container platforms put
MIRRORMQ_PORT, MIRRORMQ_SERVICE_HOST and the like into the environment of every program that runs
beside a service called "mirrormq". It is reported in `Settings.warnings` instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mirrormq.config.conf import ConfEntry
from mirrormq.config.keys import FAMILIES, SCALARS

PREFIX = "MIRRORMQ_"

READ_BY_OTHER_CODE = frozenset(
    {"AMQP_URI", "BUILD", "COMPILE", "CONF", "COOKIE", "COOKIE_FILE", "NODE", "SPARK_LOG", "URI"}
)
"""Variables that other code reads: the cookie, the path of the file, the build, options of the commands."""

INTERNAL_PREFIXES = ("TEST_", "BENCH_", "BUILD_")
"""Prefixes of variables of our own test suite, benchmark and build."""


def state_directory(environment: Mapping[str, str]) -> Path:
    """Return the directory for persistent state of this user's programs."""
    state = environment.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(state) / "mirrormq"


def read_environment(environment: Mapping[str, str]) -> tuple[list[ConfEntry], list[str]]:
    """Return the settings in the environment, and the variables that match no key."""
    entries: list[ConfEntry] = []
    unknown: list[str] = []
    for variable, value in sorted(environment.items()):
        if not variable.startswith(PREFIX):
            continue
        word = variable.removeprefix(PREFIX)
        if word in READ_BY_OTHER_CODE or word.startswith(INTERNAL_PREFIXES):
            continue
        key = key_of(word)
        if key is None:
            unknown.append(variable)
        else:
            entries.append(ConfEntry(key, value, variable))
    return entries, unknown


def key_of(word: str) -> str | None:
    """Return the key of a variable (without its prefix); None without one."""
    dotted = word.lower().replace("__", ".")
    if dotted in SCALARS or dotted in FAMILIES or dotted.rpartition(".")[0] in FAMILIES:
        return dotted
    flat = dotted.replace(".", "_")
    meant = [key for key in SCALARS if key.replace(".", "_") == flat]
    return meant[0] if len(meant) == 1 else None
