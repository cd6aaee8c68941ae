"""Spark's Python processes use the PySpark that is installed, not a zip that is compiled at each start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark

from mirrormq.spark.python import quick_python


def started_with(path: str, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": path}
    command = [quick_python(), *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=60
    ).stdout


def test_the_zip_is_left_out_and_the_rest_stays(tmp_path: Path) -> None:
    home = Path(pyspark.__file__).parent
    kept = [str(tmp_path / "a b"), str(tmp_path / "*")]
    path = ":".join([str(home / "python" / "lib" / "pyspark.zip"), *kept])
    script = "import pyspark, sys; print(pyspark.__file__, sys.path[1:3], sys.argv[1:])"
    said = started_with(path, "-c", script, "x y", "")
    assert said.split(maxsplit=1)[0] == str(home / "__init__.py")
    assert said.split(maxsplit=1)[1].strip() == f"{kept} {['x y', '']}"


def test_without_a_path_python_starts_all_the_same() -> None:
    assert started_with("", "-c", "import sys; print(sys.prefix)").strip() == sys.prefix


def test_a_pyspark_that_is_not_installed_with_python_is_left_alone() -> None:
    script = "import sys; sys.prefix = '/nowhere'\n"
    script += "from mirrormq.spark.python import quick_python; print(quick_python('p'))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "p"
