"""Choice of the node and control socket that `mirrormqctl` uses by default.

Nodes that `mirrormq cluster` starts are named mirror1@localhost, mirror2@localhost and so on, and the
first is the default. If one node with another name runs on the host or in the container, that node is the
default. If the first of several nodes is stopped, no other node replaces it: an operator who types `stop`
twice must not stop two nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from mirrormq.config.settings_loader import default_runtime_directory

DEFAULT_NODE = "mirror1@localhost"
OF_A_LOCAL_CLUSTER = re.compile(r"mirror\d+@localhost")
SERVICE_DIRECTORY = Path("/run/mirrormq")
"""Directory of the control socket of a node that runs as a system service (deploy/systemd)."""


def runtime_directory(environment: Mapping[str, str], service: Path = SERVICE_DIRECTORY) -> Path:
    """Return the directory of the control sockets: the configured one, else the user's, or the service's
    if only that one contains sockets."""
    usual = default_runtime_directory(environment)
    if environment.get("MIRRORMQ_RUNTIME_DIR") or _names(usual) or not _names(service):
        return usual
    return service


def default_node(environment: Mapping[str, str], directory: Path) -> str:
    """Return the default node if the command line names none."""
    if chosen := environment.get("MIRRORMQ_NODE"):
        return chosen
    names = _names(directory)
    # The second node of a local cluster never replaces a stopped first one.
    if len(names) == 1 and not OF_A_LOCAL_CLUSTER.fullmatch(names[0]):
        return names[0]
    return DEFAULT_NODE


def _names(directory: Path) -> list[str]:
    try:
        return sorted(found.stem for found in directory.iterdir() if found.suffix == ".sock")
    except OSError:
        return []
