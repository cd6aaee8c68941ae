"""Node packages that tests need, installed from the package-lock.json of a test directory."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.clients.support import missing, need_program

INSTALL_DEADLINE_S = 120.0


def need_node_package(directory: Path, package: str) -> str:
    """Install the package into the ignored node_modules of the directory, and return the path of node."""
    program = need_program("node", "nodejs")
    if not _is_installed(directory, package):
        command = [need_program("npm", "npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=INSTALL_DEADLINE_S, check=False
        )
        if done.returncode != 0:
            missing(
                f"npm could not install {package}; run `npm ci` in {directory.name}/ and see:"
                f" {done.stderr[-500:]}"
            )
    return program


def _is_installed(directory: Path, package: str) -> bool:
    wanted = json.loads((directory / "package.json").read_text())["dependencies"][package]
    installed = directory / "node_modules" / package / "package.json"
    return installed.exists() and bool(json.loads(installed.read_text())["version"] == wanted)
