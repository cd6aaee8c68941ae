"""Notes for a node that does not run: not to wait for the others when it starts (`force_boot`), and whom to
forget then (`forget_cluster_node --offline`), which says the first as well.
"""

from __future__ import annotations

from pathlib import Path

NAME = "forget_at_start"
FORCED = "force_boot_at_start"


def force(data_directory: Path) -> None:
    """It shall not wait for the others."""
    (data_directory / FORCED).touch()


def forced(data_directory: Path) -> bool:
    """Shall it not wait for the others?"""
    return (data_directory / FORCED).exists() or bool(read(data_directory))


def leave(data_directory: Path, node: str) -> None:
    """Add a node to those that are to be forgotten."""
    names = [*read(data_directory), node]
    (data_directory / NAME).write_text("\n".join(dict.fromkeys(names)))


def read(data_directory: Path) -> list[str]:
    """The nodes that are to be forgotten."""
    try:
        return (data_directory / NAME).read_text().split()
    except FileNotFoundError:
        return []


def clear(data_directory: Path) -> None:
    """It is done."""
    for name in (NAME, FORCED):
        (data_directory / name).unlink(missing_ok=True)
