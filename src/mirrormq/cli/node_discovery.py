"""Which node `mirrormqctl` means when nobody says, and where its control socket is.

Nodes that `mirrormq cluster` starts are called mirror1@localhost, mirror2@localhost and so on, and the first
is meant. On a machine or in a container with one node that has a name of its own, that one is. If the first
of several is stopped, no other takes its place: whoever types `stop` twice must not stop two nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from mirrormq.config.settings_loader import default_runtime_directory

DEFAULT_NODE = "mirror1@localhost"
OF_A_LOCAL_CLUSTER = re.compile(r"mirror\d+@localhost")
SERVICE_DIRECTORY = Path("/run/mirrormq")
"""Where a node that runs as the machine's service has its socket (deploy/systemd)."""


def runtime_directory(environment: Mapping[str, str], service: Path = SERVICE_DIRECTORY) -> Path:
    """The directory of the control sockets: the one that was chosen, else the user's own, or the service's
    if only that one has any."""
    usual = default_runtime_directory(environment)
    if environment.get("MIRRORMQ_RUNTIME_DIR") or _names(usual) or not _names(service):
        return usual
    return service


def node_meant(environment: Mapping[str, str], directory: Path) -> str:
    """The node that is asked if the command line names none."""
    if chosen := environment.get("MIRRORMQ_NODE"):
        return chosen
    names = _names(directory)
    if len(names) == 1 and not OF_A_LOCAL_CLUSTER.fullmatch(names[0]):
        return names[0]
    return DEFAULT_NODE


def _names(directory: Path) -> list[str]:
    try:
        return sorted(found.stem for found in directory.iterdir() if found.suffix == ".sock")
    except OSError:
        return []
