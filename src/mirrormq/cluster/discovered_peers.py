"""Discovered peers: node names from discovery results, and which node creates a cluster from them.

Discovery shows other views to nodes that start at the same time: a record may be missing, or come late. Two
nodes that both create a cluster would be the worst case. Three rules prevent it:

    1.  a node asks all discovered nodes for an existing cluster first, for the time of the discovery window
    2.  with ordinals in the names (`mirrormq-0`, `mirrormq-1` …, a StatefulSet), only ordinal 0 creates one;
        otherwise the first of the discovered names does, and only if discovery shows that node itself
    3.  with `target_cluster_size_hint` a node creates one only if discovery shows a majority of that number
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

ORDINAL = re.compile(r"-(\d+)$")
"""Ordinal at the end of a pod's name."""


class DiscoveryFailed(Exception):
    """Discovery without a usable result; one sentence."""


def ordinal_of(name: str) -> int | None:
    """Return the StatefulSet ordinal in a node name; None if it has none."""
    first_label = name.partition("@")[2].partition(".")[0]
    found = ORDINAL.search(first_label)
    return int(found[1]) if found else None


def may_create(name: str, discovered: Collection[str], target_size: int) -> bool:
    """Return whether a node may create a cluster if none of the discovered nodes has one."""
    if name not in discovered or len(discovered) < target_size // 2 + bool(target_size):
        return False
    ordinal = ordinal_of(name)
    return min(discovered) == name if ordinal is None else ordinal == 0


def hosts_of_endpoints(document: Any, address_type: str, suffix: str) -> list[str]:
    """Return the hosts in a Kubernetes Endpoints object, ready or not."""
    hosts: set[str] = set()
    for subset in _objects(document, "subsets"):
        for address in (*_objects(subset, "addresses"), *_objects(subset, "notReadyAddresses")):
            host = address.get(address_type)
            if not isinstance(host, str) or not host:
                raise DiscoveryFailed(
                    f"an address of the Endpoints object has no {address_type}; "
                    "pods have a hostname if their StatefulSet names the service as its serviceName"
                )
            hosts.add(host + suffix if address_type == "hostname" else host)
    return sorted(hosts)


def _objects(value: Any, key: str) -> Iterable[Mapping[str, Any]]:
    """Return the list of objects under a key; Kubernetes omits empty lists or writes null."""
    if not isinstance(value, dict):
        raise DiscoveryFailed("the reply is no Endpoints object")
    found = value.get(key) or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise DiscoveryFailed(f"'{key}' of the Endpoints object is no list of objects")
    return found


def absent_members(running: Mapping[str, bool], discovered: Collection[str]) -> list[str]:
    """Return the stopped members that discovery no longer shows. An empty result of discovery is more
    likely a fault than the end of all nodes."""
    if not discovered:
        return []
    return sorted(name for name, runs in running.items() if not runs and name not in discovered)


def is_expected(name: str, target_size: int) -> bool:
    """Return whether a member belongs to a cluster of the target size. Its pod moves to another machine or
    starts again, and discovery does not show it meanwhile."""
    ordinal = ordinal_of(name)
    return ordinal is not None and ordinal < target_size
