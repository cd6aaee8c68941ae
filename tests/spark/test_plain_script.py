"""Plain scripts, each with a Java of its own: no settings of ours, no activated environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pika
import pytest

from tests.brokers.mirrormq import MirrorMQ
from tests.management.http import Client
from tests.ranges.range_requests import Asker
from tests.waiting import until

QUEUE = "plain.script"

MANUAL = Path(__file__).parents[2] / "docs" / "spark.md"

SQL = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
options = "OPTIONS (uri '{uri}', queue '{queue}')"
spark.sql("CREATE TEMPORARY VIEW waiting USING mirrormq " + options)
print("rows", spark.sql("SELECT * FROM waiting").count())
scala = spark._jsparkSession.read().format("mirrormq").option("uri", "{uri}").option("queue", "{queue}")
print("rows", scala.load().count())
spark.sql("CREATE TABLE kept USING mirrormq " + options)
try:
    spark.sql("SELECT * FROM kept").count()
except Exception as error:
    said = "CREATE TABLE … USING mirrormq loses its options in Spark; use CREATE TEMPORARY"
    print("refused", said in str(error))
"""

SECRETS = """
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.mirrormq.password", "{password}").getOrCreate()
for given in (
    {{"passwordFile": "secret"}},
    {{"passwordEnv": "BROKER_PASSWORD"}},
    {{"password": spark.conf.get("spark.mirrormq.password")}},
):
    frame = spark.read.format("mirrormq").options(uri="{uri}", queue="{queue}", **given).load()
    print("rows", frame.count(), "{password}" in frame._jdf.queryExecution().toString())
settings = {{row.key: row.value for row in spark.sql("SET").collect()}}
print("hidden", "redacted" in settings["spark.mirrormq.password"])
"""


@pytest.fixture
def messages(uri: str) -> str:
    connection = pika.BlockingConnection(pika.URLParameters(uri))
    channel = connection.channel()
    channel.queue_declare(QUEUE, arguments={"x-expires": 600_000})
    channel.queue_purge(QUEUE)
    for number in range(7):
        channel.basic_publish("", QUEUE, b"%d" % number)
    channel.queue_declare(QUEUE, passive=True)
    connection.close()
    return uri


def run(script: str, directory: Path, **environment: str) -> list[str]:
    file = directory / "script.py"
    file.write_text(script)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    given = {**kept, "PATH": "/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1", **environment}
    command = [sys.executable, str(file)]
    done = subprocess.run(
        command, env=given, cwd=directory, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.timeout(240)
def test_the_first_snippets_of_the_manual_work_in_a_plain_script(messages: str, tmp_path: Path) -> None:
    snippets = re.findall(r"```python\n(.*?)```", MANUAL.read_text(), re.DOTALL)
    setup = snippets[0]
    consuming = next(snippet for snippet in snippets if "writeStream" in snippet)
    here = re.sub(r'uri = ".*"', f"uri = {messages!r}", setup).replace('"orders"', repr(QUEUE))
    assert messages in here and QUEUE in here
    lines = [here, consuming, 'print("rows", spark.read.parquet("var/orders").count())']
    assert run("\n".join(lines), tmp_path) == ["rows 7"]
    asker = Asker(messages)
    until(lambda: not asker.leases(QUEUE), "the lease ends 10 s after its last request")
    asker.close()


@pytest.mark.timeout(240)
def test_spark_finds_the_format_by_itself_and_sql_knows_it(messages: str, tmp_path: Path) -> None:
    script = SQL.format(uri=messages, queue=QUEUE)
    found = run(script, tmp_path, PYSPARK_PYTHON=sys.executable)
    assert found == ["rows 7", "rows 7", "refused True"]


@pytest.mark.timeout(240)
def test_passwords_come_from_a_file_the_environment_or_a_spark_setting(
    messages: str, mirrormq: MirrorMQ, tmp_path: Path
) -> None:
    password = "not-to-be-seen"
    client = Client(mirrormq.management_port)
    client.put("users/secretive", {"password": password, "tags": ""})
    client.put("permissions/%2F/secretive", {"configure": "", "write": "", "read": ".*"})
    (tmp_path / "secret").write_text(f"{password}\n")
    uri = messages.replace("guest:guest", "secretive")
    script = SECRETS.format(uri=uri, queue=QUEUE, password=password)
    found = run(script, tmp_path, PYSPARK_PYTHON=sys.executable, BROKER_PASSWORD=password)
    assert found == ["rows 7 False"] * 3 + ["hidden True"]
    client.delete("users/secretive")
