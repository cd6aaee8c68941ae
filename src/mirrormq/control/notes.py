"""Notes for a node that does not run: whom to forget when it starts (`forget_cluster_node --offline`).

A node that finds one starts without waiting for the others, as after `force_boot`, and lets its cluster
forget them.
"""

from __future__ import annotations

from pathlib import Path

NAME = "forget_at_start"


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
    (data_directory / NAME).unlink(missing_ok=True)
