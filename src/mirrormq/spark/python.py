"""Python launcher for Spark that starts faster.

Spark puts a zip of PySpark's sources first on the path of every Python process it starts. Python does not
cache compiled code of a zip, and each process compiles PySpark again: half a second before a streaming query
takes its first message. The same PySpark is installed beside this package, compiled. Spark therefore gets a
program that leaves the zip out and runs the real Python.
"""

from __future__ import annotations

import atexit
import shlex
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

SHIM = """#!/bin/sh
# Starts the real python without Spark's zip of its own sources.
set -f
kept=
IFS=:
for place in $PYTHONPATH; do
    case $place in
        */python/lib/pyspark.zip) ;;
        *) kept=$kept${{kept:+:}}$place ;;
    esac
done
PYTHONPATH=$kept exec {python} "$@"
"""


def quick_python(python: str = sys.executable) -> str:
    """Create a program to use as PYSPARK_PYTHON on this machine, removed at exit; return `python` itself if
    PySpark is not installed in its own directories."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None or not Path(spec.origin).is_relative_to(sys.prefix):
        return python
    directory = Path(tempfile.mkdtemp(prefix="mirrormq-python-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    shim = directory / "python"
    shim.write_text(SHIM.format(python=shlex.quote(python)))
    shim.chmod(0o755)
    return str(shim)
