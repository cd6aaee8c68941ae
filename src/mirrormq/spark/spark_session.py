"""Starts Spark: in this process, on a cluster, or behind a Connect address; quietly, or with one sentence."""

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
"""Spark Connect's own default."""

START_TIMEOUT_S = 180.0
"""For Java and Spark to come up: seconds on an idle machine, half a minute on a busy one."""

REACH_TIMEOUT_S = 5.0
"""How long to try a Connect server or a master; Spark itself would go on trying for minutes."""

CANCEL_INTERVAL_S = 0.3
"""How often it is looked whether Ctrl-C was pressed."""

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
"""How a query's checkpoint is written. Spark's own choice starts a process, `readlink`, about eight times for
each file on a local disk, which takes longer than the rest of a small batch. This way is as safe: a file is
written under another name and renamed, after a look that there is none of that name."""

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

JAVA_OPTIONS = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()} -XX:+UseParallelGC"
"""Quiet, and with the collector that costs the least on few cores."""

SHORT_WORK = "-XX:TieredStopAtLevel=1"
"""For work of a minute or less: Java compiles quickly rather than well, which halves the time it takes."""


def require_spark() -> None:
    """Say so when the packages of the extra are not there."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        raise PipelineError("Spark is not installed: run pip install 'mirrormq[spark]'")


def start_session(
    name: str, master: str = DEFAULT_MASTER, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session called `name` on `master`, which is any Spark master or an `sc://` address.

    `settings` are Spark's own (`spark.driver.memory`, …) and win over ours. What keeps Spark from
    starting becomes a PipelineError.
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
    """A session that a command has for itself, as long as the block lasts.

    After Ctrl-C whatever Spark runs for the block is cancelled, and KeyboardInterrupt is raised when that has
    ended; if Spark is still starting, when it has started.
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
    """Cancel what runs, once Ctrl-C was pressed; and what was begun in that moment."""
    while not over.wait(CANCEL_INTERVAL_S):
        if presses.count:
            try:
                spark.interruptAll()
            except Exception:  # it is being stopped
                return


def _connect(name: str, address: str, settings: Mapping[str, str]) -> SparkSession:
    _reach(address, CONNECT_PORT, "Spark Connect server")
    from pyspark.sql import SparkSession

    # Spark takes this variable as its master too, and refuses to have two.
    os.environ.pop("SPARK_REMOTE", None)
    try:
        builder = SparkSession.builder.remote(address).appName(name)
        for key, value in settings.items():
            builder = builder.config(key, value)
        with warnings.catch_warnings(record=True) as said:
            session = builder.getOrCreate()
    except Exception as error:  # whatever grpc, Spark or the server has to say
        raise PipelineError(
            f"no session with the Spark Connect server at {address}: {sentence(error)}"
        ) from None
    refused = [key for key in settings for warning in said if f"Failed to set {key} " in str(warning.message)]
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
        # Java has an active session by thread, and only there looks for formats that were registered.
        java_sessions = SparkSession._get_j_spark_session_class(session._jvm)
        java_sessions.setActiveSession(session._jsparkSession)
        return session
    except PipelineError:
        raise
    except Exception as error:
        raise PipelineError(f"Spark does not start on {master}: {sentence(error)}") from None


def _within(timeout_s: float, master: str, start: Callable[[], SparkSession]) -> SparkSession:
    """Start it in a thread of its own and wait so long: PySpark waits for ever for a Java that ended without
    an error. In the main thread it would also take over Ctrl-C."""
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
            " set MIRRORMQ_SPARK_LOG=info to see what its Java says"
        ) from None


def _prepare_environment(master: str) -> None:
    os.environ["JAVA_HOME"] = str(quiet_java_home(find_java()))
    if "PYSPARK_PYTHON" not in os.environ:
        # On a cluster its machines would look for a program that is only here.
        local = re.fullmatch(r"local(\[.*\])?", master) is not None
        os.environ["PYSPARK_PYTHON"] = quick_python() if local else sys.executable
    # Where it stays on this machine it also works where the machine's own name has no address.
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
