"""The walkthrough in the documentation shows what one sees."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from pathlib import Path
from typing import Any

import pika
from pyspark.sql import SparkSession

TEXT = Path(__file__).parents[2] / "docs" / "spark-walkthrough.md"
ADDRESS = "amqp://guest:guest@127.0.0.1:5672/%2F"
CELL = re.compile(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", re.DOTALL)


def test_each_cell_prints_what_stands_below_it(spark: SparkSession, uri: str) -> None:
    cells = CELL.findall(TEXT.read_text())
    assert len(cells) == 7
    names: dict[str, Any] = {}
    try:
        for code, shown in cells:
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                exec(compile(code.replace(ADDRESS, uri), TEXT.name, "exec"), names)
            assert said.getvalue().strip() == shown.strip(), code
    finally:
        shutil.rmtree(names.get("place", "/nonexistent"), ignore_errors=True)
        connection = pika.BlockingConnection(pika.URLParameters(uri))
        for queue in ("walk.orders", "walk.totals"):
            connection.channel().queue_delete(queue)
        connection.close()
