"""Flag files for a stopped node, read at its next start.

`force_boot` makes the node start without waiting for its peers. `forget_cluster_node --offline` names
members to remove and implies `force_boot`.
"""

from __future__ import annotations

from pathlib import Path

NAME = "forget_at_start"
FORCED = "force_boot_at_start"


def force(data_directory: Path) -> None:
    """Make the node start without waiting for its peers."""
    (data_directory / FORCED).touch()


def forced(data_directory: Path) -> bool:
    """Report whether the node must start without waiting for its peers."""
    return (data_directory / FORCED).exists() or bool(read(data_directory))


def leave(data_directory: Path, node: str) -> None:
    """Add a node to the members to forget."""
    names = [*read(data_directory), node]
    (data_directory / NAME).write_text("\n".join(dict.fromkeys(names)))


def read(data_directory: Path) -> list[str]:
    """Return the members to forget."""
    try:
        return (data_directory / NAME).read_text().split()
    except FileNotFoundError:
        return []


def clear(data_directory: Path) -> None:
    """Remove the flags after they have been applied."""
    for name in (NAME, FORCED):
        (data_directory / name).unlink(missing_ok=True)
