"""What `mirrormqctl` has to know of a verb before it asks the node, and words that many usage lines have.

In a banner `{0}`, `{1}` … are the arguments, `{vhost}` and other names are options, `{node}` the node.
"""

from __future__ import annotations

from dataclasses import dataclass, field

VHOST = "[--vhost <vhost>]"
HEADERS = "[--no-table-headers]"
UNLIMITED = 10_000
"""Arguments of a verb that takes any number of columns or tags."""


@dataclass(frozen=True, slots=True)
class CtlCommand:
    """One verb as the command line sees it."""

    name: str
    group: str
    help: str
    usage: str = ""
    arguments: tuple[int, int] = (0, 0)
    """The least and the most words it takes."""
    banner: str = ""
    columns: tuple[str, ...] = ()
    """The columns shown when none are named; empty: not a table."""
    all_columns: tuple[str, ...] = ()
    """What may be named; empty: no columns may be named."""
    options: tuple[str, ...] = ()
    """Names of the options it takes beside the general ones."""
    example: str = ""
    headers: bool = True
    """rabbitmqctl has one table without a line of column names."""
    banner_options: dict[str, str] = field(default_factory=dict)
    """Defaults of the options that the banner shows."""
