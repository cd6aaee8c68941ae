"""Loader of `Settings` from four sources: flags over environment over file over defaults."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from mirrormq.config.conf import ConfEntry, read_conf, split_key
from mirrormq.config.environment import read_environment, state_directory
from mirrormq.config.keys import (
    EMPTIED_BY_NONE,
    FAMILIES,
    NOT_SUPPORTED,
    SCALARS,
    WITHOUT_MEANING,
    SettingKey,
)
from mirrormq.config.settings import MANAGEMENT_TLS_DEFAULT, Address, Settings, ShovelEntry
from mirrormq.config.settings_checks import check
from mirrormq.config.value_readers import one_of
from mirrormq.errors import ConfigurationError

NONE = SettingKey("", one_of("none"))
UNNAMED_HOST = {
    "management_listener": Address("", 15672),
    "management_tls_listener": MANAGEMENT_TLS_DEFAULT,
    "metrics_listener": Address("", 15692),
}
"""Listeners that are written as two keys, with defaults for a missing one."""
SHOVEL_PREFIX = "shovel."
EXCLUSIVE_PAIRS = (
    ("memory_high_watermark_relative", "memory_high_watermark_bytes"),
    ("disk_free_limit_relative", "disk_free_limit_bytes"),
)


def load_settings(
    flags: Iterable[ConfEntry] = (),
    environment: Mapping[str, str] | None = None,
    conf: Path | None = None,
) -> Settings:
    """Build a node's settings; raise ConfigurationError with a sentence about the first fault."""
    environment = os.environ if environment is None else environment
    from_environment, unknown = read_environment(environment)
    initial = Settings(settings_file=conf, runtime_directory=default_runtime_directory(environment))
    builder = _Builder(initial)
    builder.apply(read_conf(conf) if conf is not None else [])
    builder.apply(from_environment)
    builder.apply(flags)
    for variable in unknown:
        builder.warnings.append(f"The environment variable {variable} fits no setting and is ignored.")
    return builder.finish()


def default_runtime_directory(environment: Mapping[str, str]) -> Path:
    """Return the directory of control sockets: MIRRORMQ_RUNTIME_DIR, else the user's state directory."""
    if chosen := environment.get("MIRRORMQ_RUNTIME_DIR"):
        return Path(chosen).expanduser()
    return state_directory(environment)


class _Builder:
    """Builder that applies sources from weakest to strongest."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.warnings: list[str] = []
        self.named_data_directory = False
        self.named_management = False

    def apply(self, entries: Iterable[ConfEntry]) -> None:
        families: dict[str, dict[str, object]] = {}
        for entry in entries:
            family, word = self._family(entry.key)
            if entry.key in EMPTIED_BY_NONE:
                _read(NONE, entry)
                families[entry.key] = {}
            elif entry.key in SCALARS:
                self._set_scalar(SCALARS[entry.key], _read(SCALARS[entry.key], entry))
            elif entry.key.startswith(SHOVEL_PREFIX):
                self._add_shovel_entry(entry)
            elif family is not None:
                families.setdefault(family, {})[word] = _read(FAMILIES[family], entry)
            else:
                self._without_a_place(entry)
        for name, members in families.items():
            self._set_family(name, members)

    def _add_shovel_entry(self, entry: ConfEntry) -> None:
        _, name, *path = split_key(entry.key)
        if not name or not all(path) or not path:
            raise ConfigurationError(
                f"{entry.source}: write {entry.key} as shovel.NAME.KEY, such as shovel.archive.src-queue."
            )
        kept = [
            known for known in self.settings.static_shovels if (known.name, known.path) != (name, (*path,))
        ]
        self._replace(static_shovels=(*kept, ShovelEntry(name, (*path,), entry.value, entry.source)))

    def _family(self, key: str) -> tuple[str | None, str]:
        words = split_key(key)
        name = ".".join(words[:-1])
        return (name, words[-1]) if name in FAMILIES else (None, "")

    def _set_scalar(self, key: SettingKey, value: object) -> None:
        part, _, name = key.field.partition(".")
        if part in UNNAMED_HOST and name:
            current = getattr(self.settings, part) or UNNAMED_HOST[part]
            self._replace(**{part: current._replace(**{name: value})})  # type: ignore[arg-type]
        elif name.startswith("category."):
            category = name.removeprefix("category.")
            levels = dict(self.settings.log.categories) | {category: str(value)}
            self._replace(log=replace(self.settings.log, categories=tuple(levels.items())))
        elif name:
            self._replace(**{part: replace(getattr(self.settings, part), **{name: value})})
        elif part:
            self._replace(**{part: value}, **_cleared_by(part))
        if part == "data_directory":
            self.named_data_directory = True
        if part == "management_listener":
            self.named_management = True

    def _set_family(self, name: str, members: dict[str, object]) -> None:
        key = FAMILIES[name]
        if key.shape == "switches":
            chosen: tuple[object, ...] = tuple(word for word, on in members.items() if on)
        else:
            chosen = tuple(members[word] for word in sorted(members, key=_index))
        part, _, field = key.field.partition(".")
        if field:
            self._replace(**{part: replace(getattr(self.settings, part), **{field: chosen})})
        else:
            self._replace(**{part: chosen})

    def _without_a_place(self, entry: ConfEntry) -> None:
        if any(fnmatchcase(entry.key, pattern) for pattern in WITHOUT_MEANING):
            self.warnings.append(f"{entry.source}: {entry.key} has no effect in MirrorMQ.")
        elif any(fnmatchcase(entry.key, pattern) for pattern in NOT_SUPPORTED):
            raise ConfigurationError(f"{entry.source}: MirrorMQ does not support {entry.key}; remove it.")
        else:
            raise ConfigurationError(f"{entry.source}: unknown key {entry.key}{_nearest(entry.key)}.")

    def _replace(self, **changes: object) -> None:
        self.settings = replace(self.settings, **changes)  # type: ignore[arg-type]

    def finish(self) -> Settings:
        if not self.named_data_directory:
            self._replace(data_directory=Path("var") / self.settings.name)
        self._choose_management()
        check(self.settings)
        return replace(self.settings, warnings=tuple(self.warnings))

    def _choose_management(self) -> None:
        """Choose the management listeners. With certificates for the API, its plain listener exists only if
        it is configured, as in RabbitMQ."""
        settings = self.settings
        if settings.management_legacy_tls:
            tls = settings.management_tls_listener or settings.management_listener
            self._replace(management_tls_listener=tls, management_listener=None)
        elif settings.management_tls_listener is not None or settings.management_tls.certfile is not None:
            self._replace(management_tls_listener=settings.management_tls_listener or MANAGEMENT_TLS_DEFAULT)
            if not self.named_management:
                self._replace(management_listener=None)


def _cleared_by(field: str) -> dict[str, object]:
    """Return the field of an exclusive pair to clear: of `relative` and `absolute` the one set last
    applies."""
    for one, other in EXCLUSIVE_PAIRS:
        if field in (one, other):
            return {one if field == other else other: None}
    return {}


def _read(key: SettingKey, entry: ConfEntry) -> object:
    try:
        return key.reader(entry.value)
    except ValueError as error:
        shown = "that value" if "pass" in entry.key else f"`{entry.value}`"
        raise ConfigurationError(f"{entry.source}: {entry.key} must be {error}, not {shown}.") from None


def _index(word: str) -> tuple[int, int, str]:
    """Sort key of the last word: numbers in their order before names in theirs."""
    return (0, int(word), "") if re.fullmatch(r"\d+", word) else (1, 0, word)


def _nearest(key: str) -> str:
    known = [*SCALARS, *(f"{name}.NAME" for name in FAMILIES), "shovel.NAME.KEY"]
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    return f"; the nearest known key is {close[0]}" if close else ""
