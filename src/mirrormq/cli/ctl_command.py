"""Description of one `mirrormqctl` command, and texts that many usage lines share.

In a banner `{0}`, `{1}` … are the arguments, `{vhost}` and other names are options, `{node}` is the node.
"""

from __future__ import annotations

from dataclasses import dataclass, field

VHOST = "[--vhost <vhost>]"
HEADERS = "[--no-table-headers]"
UNLIMITED = 10_000
"""Largest number of arguments of a command that takes any number of columns or tags."""


@dataclass(frozen=True, slots=True)
class CtlCommand:
    """Command as the command line sees it."""

    name: str
    group: str
    help: str
    usage: str = ""
    arguments: tuple[int, int] = (0, 0)
    """Smallest and largest number of arguments."""
    banner: str = ""
    columns: tuple[str, ...] = ()
    """Columns shown if none are named; empty if the output is not a table."""
    all_columns: tuple[str, ...] = ()
    """Columns that may be named; empty if the command accepts none."""
    options: tuple[str, ...] = ()
    """Options that the command accepts besides the general ones."""
    example: str = ""
    headers: bool = True
    """Whether the table has a header line; rabbitmqctl has one table without."""
    banner_options: dict[str, str] = field(default_factory=dict)
    """Defaults of the options that the banner shows."""
