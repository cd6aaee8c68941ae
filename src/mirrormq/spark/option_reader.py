"""Reader of options, case-insensitive; a wrong value or name is one sentence."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta


class OptionError(ValueError):
    """Invalid option; the text names it and a valid value."""


OF_SPARK = ("checkpointLocation", "queryName", "path")
"""Options that Spark passes on beside ours."""

EARLIEST, LATEST = "earliest", "latest"

Offsets = str | Mapping[str, int]
"""`earliest`, `latest`, or a sequence for each queue."""


class OptionReader:
    """Case-insensitive reader of options."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._values = {key.lower(): value for key, value in options.items()}
        names = {name.lower(): name for name in (*known, *OF_SPARK)}
        for key in self._values:
            if key not in names:
                close = difflib.get_close_matches(key, names, 1)
                hint = f": did you mean {names[close[0]]}?" if close else ""
                raise OptionError(f"there is no option {key}{hint}")

    def text(self, name: str, default: str | None = None) -> str | None:
        return self._values.get(name.lower(), default)

    def flag(self, name: str, default: bool) -> bool:
        value = (self.text(name) or str(default)).lower()
        if value not in ("true", "false"):
            raise OptionError(f"option {name} is true or false, not {value!r}")
        return value == "true"

    def number(self, name: str) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not re.fullmatch(r"[1-9][0-9]{0,17}", value):
            raise OptionError(f"option {name} is a whole number from 1 on, not {value!r}")
        return int(value)

    def positive(self, name: str) -> float | None:
        value = self.text(name)
        if value is None:
            return None
        if not re.fullmatch(r"\d{1,15}(\.\d{1,9})?", value) or not float(value):
            raise OptionError(f"option {name} is a number greater than 0, not {value!r}")
        return float(value)

    def seconds(self, name: str, default_s: float) -> float:
        """Return a duration such as 500ms, 30s, 15m or 2h."""
        value = self.text(name)
        if value is None:
            return default_s
        found = re.fullmatch(r"([1-9][0-9]{0,8})\s*(ms|s|m|h)", value)
        if found is None:
            raise OptionError(f"option {name} is a duration such as 30s or 15m, not {value!r}")
        return int(found[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}[found[2]]

    def moment_ms(self, name: str) -> int | None:
        """Return a time in milliseconds since the Unix epoch, given as such or in the form of ISO 8601. A
        time without an offset is in UTC."""
        value = self.text(name)
        if value is None:
            return None
        if re.fullmatch(r"[0-9]{1,15}", value):
            return int(value)
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
        if moment is not None:
            zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            milliseconds = (zoned - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
            if milliseconds >= 0:
                return milliseconds
        raise OptionError(
            f"option {name} is a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970, not {value!r}"
        )

    def one_of(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value = (self.text(name) or default).lower()
        if value not in choices:
            raise OptionError(f"option {name} is one of {', '.join(choices)}, not {value!r}")
        return value

    def offsets(self, name: str) -> Offsets | None:
        value = self.text(name)
        if value is None or value in (EARLIEST, LATEST):
            return value
        try:
            found = json.loads(value)
            if isinstance(found, dict) and all(type(v) is int and v >= 0 for v in found.values()):
                return found
        except ValueError:
            pass
        raise OptionError(
            f"option {name} is earliest, latest, or JSON with a sequence for each queue"
            f' such as {{"orders": 1000}}, not {value!r}'
        )
