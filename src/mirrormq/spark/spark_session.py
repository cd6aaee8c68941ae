"""Spark sessions: in this process, on a cluster, or behind a Connect address. Quiet; errors are one
sentence."""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mirrormq.spark.interrupts import InterruptCount, noted
from mirrormq.spark.java import find_java, quiet_java_home
from mirrormq.spark.pipeline_errors import PipelineError, sentence
from mirrormq.spark.python import quick_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"

CONNECT_PORT = 15002
"""Default port of Spark Connect."""

START_TIMEOUT_S = 180.0
"""Time limit for the start of Java and Spark: seconds on an idle machine, half a minute on a busy one."""

REACH_TIMEOUT_S = 5.0
"""Time limit to reach a Connect server or a master; Spark itself would retry for minutes."""

CANCEL_INTERVAL_S = 0.3
"""Interval of the check for Ctrl-C."""

MASTER = re.compile(r"local(\[[^\]]+\])?|local-cluster\[[^\]]+\]|(spark|k8s|sc)://.+|yarn")

QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}

FILES_OF_QUERIES = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}
"""Checkpoint writer of queries. Spark's default starts the process `readlink` about eight times for each file
on a local disk, which takes longer than the rest of a small batch. This writer is as safe: it writes a file
under another name, checks that the target does not exist, and renames it."""

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

JAVA_OPTIONS = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()} -XX:+UseParallelGC"
"""Options for quiet logs and the garbage collector with the lowest cost on few cores."""

SHORT_WORK = "-XX:TieredStopAtLevel=1"
"""Option for work of a minute or less: Java compiles quickly rather than well, which halves the run time."""


def require_spark() -> None:
    """Raise PipelineError if the packages of the extra are not installed."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        raise PipelineError("Spark is not installed: run pip install 'mirrormq[spark]'")


def start_session(
    name: str, master: str = DEFAULT_MASTER, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start a session called `name` on `master`, which is any Spark master or an `sc://` address.

    `settings` are Spark's own (`spark.driver.memory`, …) and override ours. A failed start becomes a
    PipelineError.
    """
    if not MASTER.fullmatch(master):
        raise PipelineError(
            f"--master {master} is no Spark master:"
            " use local[N], spark://HOST:PORT, yarn, k8s://… or sc://HOST:PORT"
        )
    require_spark()
    if master.startswith("sc://"):
        return _connect(name, master, settings or {})
    return _launch(name, master, settings or {})


@contextmanager
def session_for(
    name: str, master: str = DEFAULT_MASTER, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Provide a session for one command, for the duration of the block.

    After Ctrl-C all Spark work of the block is cancelled. KeyboardInterrupt follows when that has ended; if
    Spark is still starting, when it has started.
    """
    over = threading.Event()
    with noted() as presses:
        try:
            spark = start_session(name, master, settings)
            cancelling = threading.Thread(target=_cancel, args=(spark, presses, over), daemon=True)
            cancelling.start()
            try:
                if presses.count:
                    raise KeyboardInterrupt
                yield spark
            finally:
                over.set()
                cancelling.join()
                spark.stop()
        except Exception:
            if presses.count:
                raise KeyboardInterrupt from None
            raise


def _cancel(spark: SparkSession, presses: InterruptCount, over: threading.Event) -> None:
    """Cancel running work once Ctrl-C was pressed, and work that starts in that moment."""
    while not over.wait(CANCEL_INTERVAL_S):
        if presses.count:
            try:
                spark.interruptAll()
            except Exception:  # the session is being stopped
                return


def _connect(name: str, address: str, settings: Mapping[str, str]) -> SparkSession:
    _reach(address, CONNECT_PORT, "Spark Connect server")
    from pyspark.sql import SparkSession

    # Spark also reads its master from this variable, and refuses two.
    os.environ.pop("SPARK_REMOTE", None)
    try:
        builder = SparkSession.builder.remote(address).appName(name)
        for key, value in settings.items():
            builder = builder.config(key, value)
        with warnings.catch_warnings(record=True) as caught:
            session = builder.getOrCreate()
    except Exception as error:  # any error of grpc, Spark or the server
        raise PipelineError(
            f"no session with the Spark Connect server at {address}: {sentence(error)}"
        ) from None
    refused = [
        key for key in settings for warning in caught if f"Failed to set {key} " in str(warning.message)
    ]
    if refused:
        session.stop()
        raise PipelineError(
            f"a Spark Connect server does not let {refused[0]} be set by a session: leave it out"
        )
    return session


def _launch(name: str, master: str, settings: Mapping[str, str]) -> SparkSession:
    if master.startswith("spark://"):
        _reach(master.split(",")[0], 7077, "Spark master")
    _prepare_environment(master)
    from pyspark.sql import SparkSession

    java_options = f"{JAVA_OPTIONS} {settings.get('spark.driver.extraJavaOptions', '')}"
    options = {**QUIET, **FILES_OF_QUERIES, **settings, "spark.driver.extraJavaOptions": java_options.strip()}
    try:
        builder = SparkSession.builder.appName(name).master(master)
        for key, value in options.items():
            builder = builder.config(key, value)
        session = _within(START_TIMEOUT_S, master, builder.getOrCreate)
        # Java keeps the active session per thread, and looks up registered formats only there.
        java_sessions = SparkSession._get_j_spark_session_class(session._jvm)
        java_sessions.setActiveSession(session._jsparkSession)
        return session
    except PipelineError:
        raise
    except Exception as error:
        raise PipelineError(f"Spark does not start on {master}: {sentence(error)}") from None


def _within(timeout_s: float, master: str, start: Callable[[], SparkSession]) -> SparkSession:
    """Start a session in a separate thread and wait with a time limit: PySpark waits forever for a Java that
    ended without an error. In the main thread it would also replace the handler of Ctrl-C."""
    done: Future[SparkSession] = Future()

    def run() -> None:
        try:
            done.set_result(start())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return done.result(timeout_s)
    except TimeoutError:
        raise PipelineError(
            f"Spark did not start on {master} within {timeout_s:g} s:"
            " set MIRRORMQ_SPARK_LOG=info to see the log of its Java"
        ) from None


def _prepare_environment(master: str) -> None:
    os.environ["JAVA_HOME"] = str(quiet_java_home(find_java()))
    if "PYSPARK_PYTHON" not in os.environ:
        # On a cluster the machines would look for a program that exists only here.
        local = re.fullmatch(r"local(\[.*\])?", master) is not None
        os.environ["PYSPARK_PYTHON"] = quick_python() if local else sys.executable
    # A local session also works if the machine's own name has no address.
    if master.startswith("local") or urlsplit(master).hostname in ("localhost", "127.0.0.1"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _reach(address: str, default_port: int, what: str) -> None:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port or default_port
    except ValueError:
        raise PipelineError(f"--master {address} has no valid host and port") from None
    try:
        socket.create_connection((host, port), REACH_TIMEOUT_S).close()
    except OSError as error:
        raise PipelineError(
            f"no {what} answers at {host}:{port} ({error.strerror or error}): start it or correct --master"
        ) from None
