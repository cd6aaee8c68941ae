"""A Python that starts quickly for Spark.

Spark puts a zip of PySpark's sources first on the path of every Python process it starts. Python keeps
nothing that it compiles of a zip, so each process compiles PySpark anew: half a second before a query on a
stream has taken its first message. The same PySpark is installed beside us, compiled. So Spark is given a
program that leaves the zip out and goes on to the real Python.
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
    """A program to use as PYSPARK_PYTHON on this machine, gone when we are; `python` itself if PySpark is not
    installed in its own directories."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None or not Path(spec.origin).is_relative_to(sys.prefix):
        return python
    directory = Path(tempfile.mkdtemp(prefix="mirrormq-python-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    shim = directory / "python"
    shim.write_text(SHIM.format(python=shlex.quote(python)))
    shim.chmod(0o755)
    return str(shim)
