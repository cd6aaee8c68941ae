"""Completion in real shells, and mirrormqctl under the names of RabbitMQ's programs."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import pytest

from mirrormq.cli.completion import of_ctl
from mirrormq.cli.completion_install import ALIASES, SCRIPTS
from tests.needs import not_installed

SHELL_DEADLINE_S = 60.0


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Directory with both programs, as an installation creates them."""
    for name, module in (("mirrormq", "main"), ("mirrormqctl", "ctl")):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f"#!{sys.executable}\nimport sys\nfrom mirrormq.cli.{module} import main\nsys.exit(main())\n"
        )
        path.chmod(0o755)
    return tmp_path / "bin"


def run(programs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment, timeout=60)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["list_q"], ["list_queues"]),
        (["sync"], ["sync_queue"]),
        (["-n", "mirror1", "list_v"], ["list_vhost_limits", "list_vhosts"]),
        (["list_queues", "slave"], ["slave_pids"]),
        (["list_queues", "name", "messages_r"], ["messages_ram", "messages_ready", "messages_ready_ram"]),
        (["list_users", "--formatter", "js"], ["json", "json_stream"]),
        (["list_queues", "--of"], ["--offline"]),
        (["set_policy", "--of"], []),
        (["help", "cancel"], ["cancel_sync_queue"]),
        (["list_queues", "name", "name"], []),
    ],
)
def test_candidates_of_a_completion(words: list[str], expected: list[str]) -> None:
    assert of_ctl(words) == of_ctl(["--", *words]) == expected


def test_nodes_of_this_machine_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRRORMQ_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "mirror7@localhost.sock").touch()
    assert of_ctl(["-n", ""]) == ["mirror7@localhost"]


@pytest.mark.skipif(shutil.which("bash") is None, reason=not_installed("bash"))
def test_bash_completes_both_programs(programs: Path) -> None:
    script = """
        source <(mirrormq completion bash)
        COMP_WORDS=(mirrormqctl -q cancel); COMP_CWORD=2; _complete_mirrormqctl; echo "${COMPREPLY[@]}"
        COMP_WORDS=(mirrormq cluster ki); COMP_CWORD=2; _complete_mirrormq; echo "${COMPREPLY[@]}"
        COMP_WORDS=(mirrormq cluster up --de); COMP_CWORD=3; _complete_mirrormq; echo "${COMPREPLY[@]}"
        COMP_WORDS=(mirrormqctl list_queues ""); COMP_CWORD=2; _complete_mirrormqctl; echo "${#COMPREPLY[@]}"
        complete -p mirrormqctl
    """
    done = run(programs, "bash", "-c", script)
    assert done.stderr == ""
    verb, command, flag, count, registered = done.stdout.splitlines()
    assert (verb, command, flag) == ("cancel_sync_queue", "kill", "--detach")
    assert int(count) > 30
    assert registered == "complete -o default -F _complete_mirrormqctl mirrormqctl"


@pytest.mark.skipif(shutil.which("fish") is None, reason=not_installed("fish"))
def test_fish_completes_both_programs(programs: Path) -> None:
    script = """
        mirrormq completion fish | source
        complete -C 'mirrormqctl -q cancel'
        complete -C 'mirrormq cluster ki'
        complete -C 'mirrormq cluster up --de'
        complete -C 'mirrormqctl list_queues slave'
        complete -C 'mirrormqctl list_users --formatter js'
    """
    done = run(programs, "fish", "--no-config", "-c", script)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "cancel_sync_queue", "kill", "--detach", "slave_pids", "json", "json_stream",
    ]  # fmt: skip


@pytest.mark.skipif(shutil.which("zsh") is None, reason=not_installed("zsh"))
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("mirrormqctl -q cancel", "cancel_sync_queue"),
        ("mirrormq cluster ki", "cluster kill"),
        ("mirrormq cluster up --de", "up --detach"),
        ("mirrormqctl list_queues synchronised_s", "synchronised_slave_pids"),
    ],
)
def test_zsh_completes_both_programs(programs: Path, typed: str, completed: str) -> None:
    """Check completion in a terminal with the tab key."""
    with Terminal(programs, "zsh", "-f", "-i") as terminal:
        terminal.type("PS1=READY; bindkey '^I' expand-or-complete; autoload -U compinit; compinit -D\n")
        terminal.type("source <(mirrormq completion zsh); print DO''NE\n")
        terminal.until("DONE")
        terminal.type(f"{typed}\t")
        assert completed in terminal.until(completed)


class Terminal:
    """Program in a pseudo terminal."""

    def __init__(self, programs: Path, *words: str) -> None:
        process, self._file = pty.fork()
        if process == 0:
            path = f"{programs}:{os.environ['PATH']}"
            os.execvpe(words[0], words, {**os.environ, "PATH": path, "TERM": "dumb", "COLUMNS": "200"})
        self._process = process
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._file, text.encode())

    def until(self, wanted: str) -> str:
        """Return the output up to this text."""
        deadline = time.monotonic() + SHELL_DEADLINE_S
        while wanted not in self._seen:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self._file], [], [], left)[0], self._seen
            self._seen += os.read(self._file, 65536).decode(errors="replace")
        return self._seen

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._file)


def test_every_shell_has_a_script_and_others_are_refused(programs: Path) -> None:
    for shell in SCRIPTS:
        done = run(programs, "mirrormq", "completion", shell)
        assert done.returncode == 0 and "mirrormqctl autocomplete" in done.stdout
    refused = run(programs, "mirrormq", "completion", "tcsh")
    assert refused.returncode == 2 and "name one of bash, zsh, fish" in refused.stderr


def test_one_command_installs_rabbitmqs_names_and_takes_them_away(programs: Path, tmp_path: Path) -> None:
    where = tmp_path / "elsewhere"
    done = run(programs, "mirrormq", "alias", "--directory", str(where))
    assert done.stdout.splitlines() == [str(where / name) for name in ALIASES]
    assert "list_queues" in run(programs, str(where / "rabbitmqctl"), "help").stdout
    assert run(programs, "mirrormq", "alias", "--directory", str(where)).stdout == ""
    run(programs, "mirrormq", "alias", "--directory", str(where), "--remove")
    assert list(where.iterdir()) == []


def test_another_program_of_that_name_stays(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "rabbitmqctl").write_text("RabbitMQ's own")
    for flags in ((), ("--remove",)):
        run(programs, "mirrormq", "alias", "--directory", str(tmp_path), *flags)
        assert (tmp_path / "rabbitmqctl").read_text() == "RabbitMQ's own"
    refused = run(programs, "mirrormq", "alias", "--directory", str(tmp_path))
    assert refused.returncode == 1 and "is another program and was kept" in refused.stderr
