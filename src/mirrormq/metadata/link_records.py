"""Records of links: which node runs which link of a bridge."""

from __future__ import annotations

import msgspec

LinkKey = tuple[str, str, str]
"""Key of a link: (vhost, kind, name)."""


class Link(msgspec.Struct, frozen=True, tag="link", array_like=True):
    """Assignment of a link of a bridge to the one node that runs it."""

    vhost: str
    """Vhost of the definition; empty for a static shovel."""
    kind: str
    """Kind of the bridge: `shovel`, `static-shovel` or one of federation's."""
    name: str
    node: str
    incarnation: int
    """Incarnation of the node that runs the link; a later one needs a new assignment."""
    epoch: int
    """Epoch of the link: grows with each assignment and each restart. Only its holder may finish the link."""

    @property
    def key(self) -> LinkKey:
        return (self.vhost, self.kind, self.name)


class LinkChange(msgspec.Struct, frozen=True, array_like=True):
    """Next assignment of one link, adopted only if the link's epoch has not changed since the proposal."""

    record: Link
    """Proposed assignment: adopted only if its epoch is one above the present one's, 1 for a new link."""
