"""Links that the definitions in the metadata require."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from mirrormq.metadata.changes import Change
from mirrormq.metadata.link_records import LinkKey
from mirrormq.metadata.state import MetadataState


class WantedLink(NamedTuple):
    """Link that the definitions ask for."""

    key: LinkKey
    node: str = ""
    """Node that the link must run on, and no other while that one is stopped; empty: any node."""
    among: frozenset[str] | None = None
    """Nodes that are able to run the link; None: all."""


class LinkProvider(NamedTuple):
    """Source of wanted links."""

    wanted: Callable[[MetadataState], Iterable[WantedLink]]
    concerns: Callable[[Change], bool]
    """Returns whether a change of the metadata may change the wanted links."""
