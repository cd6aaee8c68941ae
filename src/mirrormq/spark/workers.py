"""Python of Spark's workers: it must be able to import this package."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from mirrormq.spark.pipeline_errors import PipelineError, reason

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_checked: set[str] = set()
"""Applications whose workers were checked; a process has one at a time."""


def prepare_workers(spark: SparkSession) -> None:
    """Let local workers run under this Python; check once that those of a cluster can import the package.

    Behind a Spark Connect address neither is possible: the server's own errors report what is missing.
    """
    context = getattr(spark, "_sc", None)
    if context is None:
        return
    if re.fullmatch(r"local(\[.*\])?", context.master):
        # Spark starts `python3` of the PATH by default, which is another Python if a script runs in a virtual
        # environment that is not activated.
        if "PYSPARK_PYTHON" not in os.environ and context.getConf().get("spark.pyspark.python") is None:
            context.pythonExec = sys.executable
    elif context.applicationId not in _checked:
        _check_imports(context)
        _checked.add(context.applicationId)


def _check_imports(context: SparkContext) -> None:
    def attempt(rows: Iterable[int]) -> Iterator[str]:
        # Pickled by value: the workers need not have this module.
        try:
            import mirrormq.spark.sink.writers
            import mirrormq.spark.source.browse
            import mirrormq.spark.source.tasks  # noqa: F401
        except ImportError as error:
            yield str(error)

    tasks = max(2, context.defaultParallelism)
    try:
        found = context.parallelize(range(tasks), tasks).mapPartitions(attempt).take(1)
        why = found[0] if found else None
    except Exception as error:  # a Python of another version, or none at all
        why = reason(error)
    if why is not None:
        raise PipelineError(
            f"Spark's workers cannot import mirrormq ({why}): install mirrormq[spark] for their Python and"
            " set spark.pyspark.python to it, or send the packages with --archives"
            " (mirrormq pipeline package --help)"
        )
