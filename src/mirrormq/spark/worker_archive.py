"""Archive for `spark-submit --archives`: the packages that Spark's workers need beside PySpark.

Spark installs PySpark on every worker and nothing else. The archive holds this package and the libraries that
its tasks import, copied from the environment of this process. It fits workers with the same version of Python
and the same kind of processor. `spark.executorEnv.PYTHONPATH` makes it importable; the Python of the workers
stays their own, so the driver and the workers need no common path.
"""

from __future__ import annotations

import os
import platform
import tarfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from mirrormq.spark.pipeline_errors import PipelineError

PACKAGES = ("mirrormq", "pyspark_mirrormq")
LIBRARIES = ("msgspec", "numpy", "pyarrow")
"""Distributions that tasks import. `tests/spark_cluster/test_workers.py` runs a query with nothing else."""
LIBRARIES_OF_SCHEMAS = ("fastavro", "protobuf")
"""Distributions of the extra `schemas`, which the archive has if they are installed."""

COMPRESSION = 1
"""Level of gzip: higher ones take ten times as long for a tenth of the size."""

SKIPPED = ("tests", "include", "__pycache__")
"""Directories of libraries that no task reads; half of their size."""


def write_archive(target: Path) -> int:
    """Write the archive, in place of an earlier one only when it is complete; return its size in bytes."""
    part = target.with_name(f"{target.name}.part")
    try:
        with tarfile.open(part, "w:gz", compresslevel=COMPRESSION) as archive:
            for path, name in _files():
                archive.add(path, name, recursive=False)
        size = part.stat().st_size
        os.replace(part, target)
        return size
    except OSError as error:
        raise PipelineError(
            f"{target} cannot be written: {error.strerror or error}; choose another --to"
        ) from None
    finally:
        part.unlink(missing_ok=True)


def python_version() -> str:
    """Return the version of Python that the workers must have, and their kind of processor."""
    major, minor, _ = platform.python_version_tuple()
    return f"Python {major}.{minor} on {platform.machine()}"


def _files() -> Iterator[tuple[Path, str]]:
    """Yield each file with its name in the archive."""
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec is not None and spec.origin is not None
        root = Path(spec.origin).parent
        for path in sorted(root.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                yield path, f"{package}/{path.relative_to(root).as_posix()}"
    for library in (*LIBRARIES, *LIBRARIES_OF_SCHEMAS):
        try:
            found = distribution(library)
        except PackageNotFoundError:
            if library in LIBRARIES_OF_SCHEMAS:
                continue
            raise PipelineError(
                f"the package {library} is not installed: run pip install 'mirrormq[spark]'"
            ) from None
        for file in found.files or ():
            # A name with `..` is a script outside the library's directory.
            if ".." not in file.parts and not set(SKIPPED) & set(file.parts):
                path = Path(str(file.locate()))
                if path.is_file():
                    yield path, file.as_posix()
