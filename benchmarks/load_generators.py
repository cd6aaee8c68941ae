"""Load generators (`mirrormq.perf`) as processes of their own."""

from __future__ import annotations

import json
import subprocess

from benchmarks.clusters import Cluster

ANSWER_DEADLINE_S = 400.0


def spawn(command: list[str]) -> subprocess.Popen[str]:
    """Start a generator."""
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer(cluster: Cluster, process: subprocess.Popen[str]) -> dict[str, float]:
    """Wait for the generator and parse its report."""
    output, errors = process.communicate(timeout=ANSWER_DEADLINE_S)
    if process.returncode:
        raise RuntimeError(f"{cluster.name}: {errors.strip()}")
    found: dict[str, float] = json.loads(output)
    return found
