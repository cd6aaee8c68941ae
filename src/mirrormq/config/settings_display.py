"""Settings as plain values for display, without passwords and cookie."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from mirrormq.config.settings import Address, Seed, Settings

LEFT_OUT = frozenset({"warnings"})


def shown_settings(settings: Settings) -> dict[str, Any]:
    """Return every setting by name, without secrets."""
    return {
        found.name: _shown(getattr(settings, found.name))
        for found in fields(settings)
        if found.repr and found.name not in LEFT_OUT
    }


def _shown(value: Any) -> Any:
    if isinstance(value, Seed):
        return f"{value.name}:{value.address.port}"
    if isinstance(value, Address | Path):
        return str(value)
    if isinstance(value, tuple):
        return [_shown(item) for item in value]
    if is_dataclass(value):
        return {found.name: _shown(getattr(value, found.name)) for found in fields(value) if found.repr}
    return value
