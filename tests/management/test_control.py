"""Control commands over HTTP (`mirrormqctl --uri`): the same commands with the same texts, for
administrators."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from mirrormq.cli import ctl
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.ports import free_ports
from tests.management.http import Client

Outcome = tuple[int, str, str]


def run(*words: str) -> Outcome:
    out, error = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(error):
        code = ctl.run(list(words))
    return code, out.getvalue(), error.getvalue()


@pytest.fixture
def uri(node: MirrorMQ, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Address of the node; its control socket cannot be found."""
    monkeypatch.setenv("MIRRORMQ_RUNTIME_DIR", str(tmp_path))
    return f"http://guest:guest@127.0.0.1:{node.management_port}"


def test_a_command_over_http_prints_the_same_as_over_the_control_socket(
    node: MirrorMQ, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in (
        ["list_users"],
        ["list_users", "--formatter", "json"],
        ["list_vhosts", "-p", "nowhere"],
        ["list_permissions", "-p", "nowhere"],
        ["delete_user", "nobody"],
        ["set_policy", "p", "^q", "no json"],
        ["check_running"],
        ["list_feature_flags"],
        ["environment"],
    ):
        far = run("--uri", uri, *words)
        with monkeypatch.context() as here:
            here.setenv("MIRRORMQ_RUNTIME_DIR", str(node.directory / "run"))
            assert far == run(*words)


def test_banners_name_the_node_that_answers(node: MirrorMQ, uri: str) -> None:
    code, out, error = run("--uri", uri, "status")
    assert (code, error) == (0, "")
    assert out.startswith(f"Status of node {node.node_name} ...")


def test_users_are_made_and_passwords_tried(uri: str) -> None:
    assert run("--uri", uri, "-q", "add_user", "far", "pass:word@1")[0] == 0
    assert run("--uri", uri, "-q", "authenticate_user", "far", "pass:word@1")[0] == 0
    assert run("--uri", uri, "-q", "authenticate_user", "far", "wrong")[0] == 65
    encoded = uri.replace("guest:guest", "far:pass%3Aword%401")
    code, _, error = run("--uri", encoded, "list_users")
    assert code == 65 and "must be an administrator's" in error
    assert run("--uri", uri, "-q", "set_user_tags", "far", "monitoring")[0] == 0
    assert run("--uri", encoded, "list_users")[0] == 65
    assert run("--uri", uri, "-q", "set_user_tags", "far", "administrator")[0] == 0
    assert run("--uri", encoded, "list_users")[0] == 0


def test_the_address_may_come_from_the_environment(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRRORMQ_URI", uri)
    assert "guest" in run("list_users")[1]


@pytest.mark.parametrize("verb", ["stop", "stop_app", "reset", "force_boot", "shutdown"])
def test_commands_about_the_process_are_refused_on_every_node(uri: str, verb: str) -> None:
    code, _, error = run("--uri", uri, verb)
    assert code == 64 and "run it on the node's machine" in error
    reply = Client(int(uri.rpartition(":")[2])).post("mirrormq/control", {"verb": verb}).json
    assert not reply["ok"] and "run it on the node's machine" in reply["error"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"verb": "management", "arguments": ["overview"]}, 200),
        ({"verb": "no such verb"}, 200),
        ({"verb": "list_users", "node": "nobody@nowhere"}, 200),
        ({"verb": 5}, 400),
        ({"verb": "list_users", "arguments": [1]}, 400),
        ({"verb": "list_users", "options": []}, 400),
        ({}, 400),
    ],
)
def test_nonsense_is_refused(client: Client, body: dict[str, object], status: int) -> None:
    answer = client.post("mirrormq/control", body)
    assert answer.status == status
    assert not answer.json.get("ok", False)


def test_a_wrong_address_is_explained_without_its_password(uri: str) -> None:
    (port,) = free_ports(1)
    code, _, error = run("--uri", f"http://guest:secret@127.0.0.1:{port}", "list_users")
    assert code == 69 and f"127.0.0.1:{port}" in error and "secret" not in error
    code, _, error = run("--uri", "ftp://guest:secret@host", "list_users")
    assert code == 64 and "http://USER:PASSWORD@HOST:PORT" in error and "secret" not in error


def test_a_report_is_of_the_node_that_answers(node: MirrorMQ, uri: str) -> None:
    code, out, error = run("--uri", uri, "report")
    assert (code, error) == (0, "")
    for line in (f"Status of node {node.node_name} ...", "Listing exchanges for vhost / ..."):
        assert line in out


def test_definitions_are_exported(uri: str) -> None:
    code, out, _ = run("--uri", uri, "export_definitions", "-")
    assert code == 0 and {"users", "vhosts"} <= json.loads(out).keys()
