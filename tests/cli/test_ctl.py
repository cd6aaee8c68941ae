"""Comparison of mirrormqctl with rabbitmqctl 3.10.8, over a real control socket."""

from __future__ import annotations

import difflib
import io
import json
import os
import stat
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from mirrormq.cli import ctl
from mirrormq.cli.ctl_commands import COMMANDS
from mirrormq.control.argument_tables import encoded_arguments
from mirrormq.control.control_protocol import socket_path
from mirrormq.control.definitions_document import export_definitions
from mirrormq.metadata.commands import PutBinding, PutExchange, PutQueue
from mirrormq.metadata.policy_matching import PolicyMatcher
from mirrormq.metadata.records import Binding, Exchange, Queue
from tests.cli import transcript
from tests.cli.support import NODE_NAME, ControlledNode, served


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlledNode]:
    monkeypatch.setenv("MIRRORMQ_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("MIRRORMQ_NODE", raising=False)
    with served(tmp_path / "run") as running:
        yield running


def run(*words: str) -> transcript.Outcome:
    """Run one command line; return exit code, stdout and stderr."""
    out, error = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(error):
        code = ctl.run(list(words))
    return code, out.getvalue(), error.getvalue()


def rows(*words: str) -> list[dict[str, object]]:
    """Return the rows of a list command."""
    code, out, error = run(*words, "--formatter", "json")
    assert (code, error) == (0, "")
    found: list[dict[str, object]] = json.loads(out)
    return found


def test_every_recorded_command_gives_what_rabbitmqctl_gave(
    node: ControlledNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    ours = transcript.transcript(lambda words: run(*words), NODE_NAME).splitlines()
    theirs = transcript.RECORDED.read_text().splitlines()
    assert len(transcript.commands()) > 100
    assert "\n".join(difflib.unified_diff(theirs, ours, "rabbitmqctl", "mirrormqctl", lineterm="", n=3)) == ""


def test_the_watermarks_reach_the_node(node: ControlledNode) -> None:
    assert run("set_vm_memory_high_watermark", "absolute", "2GiB")[0] == 0
    assert node.memory_watermark == (None, 2 * 1024**3)
    assert run("set_disk_free_limit", "mem_relative", "1.5")[0] == 0
    assert node.disk_limit == (1.5, None)


def test_queues_bindings_and_exchanges_are_listed_with_their_arguments(node: ControlledNode) -> None:
    arguments = encoded_arguments({"x-max-length": 10, "x-dead-letter-exchange": "dlx"})
    node.metadata.write(PutQueue(Queue("/", "q1", arguments=arguments, node=NODE_NAME)))
    node.metadata.write(PutExchange(Exchange("/", "e1", "topic")))
    node.metadata.write(PutBinding(Binding("/", "e1", "queue", "q1", "a.#")))
    run("set_policy", "p", "^q", '{"max-length": 5}')
    assert rows("list_queues", "name", "messages", "consumers", "policy", "state") == [
        {"name": "q1", "messages": 0, "consumers": 0, "policy": "p", "state": "running"}
    ]
    code, out, _ = run("-q", "list_queues", "name", "arguments", "durable", "--no-table-headers")
    assert (code, out) == (0, 'q1\t[{"x-max-length",10},{"x-dead-letter-exchange","dlx"}]\ttrue\n')
    assert [tuple(row.values())[:5] for row in rows("list_bindings")] == [
        ("", "exchange", "q1", "queue", "q1"),
        ("e1", "exchange", "q1", "queue", "a.#"),
    ]
    assert {"name": "e1", "type": "topic"} in rows("list_exchanges")


def test_queues_are_purged_and_deleted(node: ControlledNode) -> None:
    node.metadata.write(PutQueue(Queue("/", "q1", node=NODE_NAME)))
    assert run("purge_queue", "q1") == (0, "Purging queue 'q1' in vhost '/' ...\n", "")
    assert run("-q", "delete_queue", "q1", "--if-empty") == (
        0,
        "Queue was successfully deleted with 0 ready messages\n",
        "",
    )
    assert ("/", "q1") not in node.metadata.state.queues


def test_permissions_are_set_in_all_vhosts_at_once(node: ControlledNode) -> None:
    for line in (("add_user", "anna", "pw"), ("add_vhost", "v1"), ("add_vhost", "v2")):
        assert run("-q", *line)[0] == 0
    assert run("set_permissions_globally", "anna", "^a", "", ".*")[0] == 0
    assert set(node.metadata.state.permissions) >= {("anna", vhost) for vhost in ("/", "v1", "v2")}
    assert run("-q", "set_permissions_globally", "nobody", "^a", "", ".*")[0] != 0
    assert run("-q", "set_permissions_globally", "anna", "(", "", ".*")[0] != 0


def test_definitions_survive_export_and_import(node: ControlledNode, tmp_path: Path) -> None:
    arguments = encoded_arguments({"x-max-length": 10, "x-single-active-consumer": True})
    node.metadata.write(PutQueue(Queue("/", "q1", arguments=arguments, node=NODE_NAME)))
    node.metadata.write(PutExchange(Exchange("/", "e1", "topic")))
    node.metadata.write(PutBinding(Binding("/", "e1", "queue", "q1", "a.#", encoded_arguments({"k": 1}))))
    for line in (
        ("add_user", "anna", "pw"),
        ("add_vhost", "v1", "--description", "second"),
        ("set_permissions", "-p", "v1", "anna", "^a", "", ".*"),
        ("set_policy", "p", "^q", '{"max-length": 5}', "--priority", "2"),
        ("set_operator_policy", "o", "^q", '{"max-length": 50}'),
        ("set_vhost_limits", "-p", "v1", '{"max-queues": 7}'),
        ("set_user_limits", "anna", '{"max-channels": 3}'),
        ("set_global_parameter", "g", "[1]"),
    ):
        assert run("-q", *line)[0] == 0
    file = tmp_path / "definitions.json"
    assert run("export_definitions", str(file))[0] == 0
    for removal in (
        ("delete_vhost", "v1"),
        ("delete_user", "anna"),
        ("delete_queue", "q1"),
        ("clear_policy", "p"),
    ):
        assert run("-q", *removal)[0] == 0
    assert run("import_definitions", str(file))[0] == 0
    again = json.loads(run("-q", "export_definitions", "-")[1])
    before = json.loads(file.read_text())
    for part in before:
        if isinstance(before[part], list):
            assert sorted(map(str, again[part])) == sorted(map(str, before[part])), part
    assert run("-q", "authenticate_user", "anna", "pw")[0] == 0


MIXED_DEFINITIONS = {
    "users": [{"name": "eva", "password_hash": "", "tags": ""}],
    "queues": [
        {"name": "q", "vhost": "nov", "arguments": {}},
        {"name": "votes", "vhost": "/", "arguments": {"x-queue-type": "quorum", "x-delivery-limit": 3}},
        {"name": "plain", "vhost": "/", "arguments": {}},
    ],
    "bindings": [
        {"vhost": "/", "source": "amq.topic", "destination_type": "queue", "destination": name,
         "routing_key": "#", "arguments": {}}
        for name in ("votes", "plain")
    ],
}  # fmt: skip


def written(tmp_path: Path, document: object) -> str:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(document))
    return str(file)


def test_an_entry_that_cannot_be_imported_leaves_the_others(node: ControlledNode, tmp_path: Path) -> None:
    """The command fails with the first reason, as in RabbitMQ, and lists all entries with a remedy."""
    code, out, error = run("-q", "import_definitions", written(tmp_path, MIXED_DEFINITIONS))
    assert (code, out) == (65, "")
    assert error.splitlines() == [
        "Error:",
        "Virtual host 'nov' does not exist",
        "The rest was imported; 3 of the entries were not:",
        "  queues q: Virtual host 'nov' does not exist",
        "    Add it to the file, or run mirrormqctl add_vhost nov; then import again.",
        "  queues votes: queue 'votes' has the type 'quorum', not classic",
        "    Import with --convert quorum=mirrored: it becomes a classic queue with a mirroring policy.",
        "  bindings amq.topic -> votes (#): its queue 'votes' was not imported",
        "    Follow the remedy of that entry; then import the file again.",
    ]
    state = node.metadata.state
    assert "eva" in state.users and list(state.queues) == [("/", "plain")]
    assert [binding.destination for binding in state.bindings.values()] == ["plain"]


def test_skipped_entries_are_a_warning_on_request(node: ControlledNode, tmp_path: Path) -> None:
    code, out, error = run("import_definitions", written(tmp_path, MIXED_DEFINITIONS), "--skip-unsupported")
    assert code == 0 and out.endswith("Successfully imported the definitions.\n")
    assert error.startswith("Warning: 3 of the entries were skipped:\n  queues q: ")
    assert list(node.metadata.state.queues) == [("/", "plain")]


def test_a_bad_definitions_file_changes_nothing_on_request(node: ControlledNode, tmp_path: Path) -> None:
    file = written(tmp_path, MIXED_DEFINITIONS)
    code, _, error = run("-q", "import_definitions", file, "--all-or-nothing")
    assert (code, error) == (65, "Error:\nVirtual host 'nov' does not exist\n")
    assert "eva" not in node.metadata.state.users
    assert not node.metadata.state.queues


def test_quorum_queues_become_mirrored_queues(node: ControlledNode, tmp_path: Path) -> None:
    """The policy that applied to a queue goes on to apply, with mirrors added."""
    quorum = {"x-queue-type": "quorum", "x-quorum-initial-group-size": 5, "x-max-length": 9}
    document = {
        "policies": [
            {"vhost": "/", "name": "ttl", "pattern": "^slow", "priority": 4,
             "definition": {"message-ttl": 60000}},
            {"vhost": "/", "name": "ha", "pattern": "^ha", "definition": {"ha-mode": "all"}},
        ],
        "queues": [
            {"name": "slow.1", "vhost": "/", "arguments": quorum},
            {"name": "ha.1", "vhost": "/", "arguments": {"x-queue-type": "quorum"}},
            {"name": "alone", "vhost": "/", "arguments": {"x-queue-type": "quorum"}},
        ],
    }  # fmt: skip
    code, out, _ = run("import_definitions", written(tmp_path, document), "--convert", "quorum=mirrored")
    assert code == 0
    assert "Converted: queue 'slow.1' in vhost '/' becomes a mirrored queue.\n" in out
    state = node.metadata.state
    exported = {queue["name"]: queue["arguments"] for queue in export_definitions(state, "")["queues"]}
    assert exported == {"slow.1": {"x-max-length": 9}, "ha.1": {}, "alone": {}}
    mirrored = PolicyMatcher(state)
    exactly = {"ha-mode": "exactly", "ha-sync-mode": "automatic"}
    assert mirrored.effective("/", "slow.1", "queues").definition == {
        "message-ttl": 60000, "ha-params": 5, **exactly
    }  # fmt: skip
    assert mirrored.effective("/", "ha.1", "queues").definition == {"ha-mode": "all"}
    assert mirrored.effective("/", "alone", "queues").definition == {"ha-params": 3, **exactly}
    assert mirrored.effective("/", "slow.2", "queues").definition == {"message-ttl": 60000}


def test_an_unknown_conversion_is_refused(node: ControlledNode, tmp_path: Path) -> None:
    code, _, error = run("-q", "import_definitions", written(tmp_path, {}), "--convert", "stream=queue")
    assert code == 64
    assert "--convert stream=queue is unknown; the known one is quorum=mirrored." in error


def test_unchanged_definitions_are_skipped_on_request(node: ControlledNode, tmp_path: Path) -> None:
    file = written(tmp_path, {"vhosts": [{"name": "once"}]})
    for _ in range(2):
        assert run("-q", "import_definitions", file, "--skip-if-unchanged")[0] == 0
        had = "once" in node.metadata.state.vhosts
        run("-q", "delete_vhost", "once")
    assert not had


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "The definitions must be a JSON object."),
        ({"users": [{"name": "a"}]}, "the key 'password_hash' is missing"),
        ({"users": [{"name": "a", "password_hash": "?"}]}, "the password_hash of user 'a' is not base64"),
        (
            {"exchanges": [{"name": "e", "vhost": "/", "type": "odd"}]},
            "exchange 'e' has the unknown type 'odd'",
        ),
        (
            {"queues": [{"name": "q", "vhost": "/", "arguments": {"x-queue-type": "quorum"}}]},
            "queue 'q' has the type 'quorum', not classic",
        ),
    ],
)
def test_bad_definitions_are_named(
    node: ControlledNode, tmp_path: Path, document: object, sentence: str
) -> None:
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(document))
    code, _, error = run("-q", "import_definitions", str(file))
    assert code == 65
    assert sentence in error


def test_definitions_written_by_rabbitmq_are_read(node: ControlledNode, tmp_path: Path) -> None:
    file = Path(__file__).parent / "rabbitmq_definitions.json"
    assert run("-q", "import_definitions", str(file)) == (0, "", "")
    assert run("-q", "authenticate_user", "anna", "pw2")[0] == 0
    assert node.metadata.state.operator_policies["/", "op1"].definition == {"max-length": 7}
    assert node.metadata.state.vhosts["/"].limits == {"max-queues": 30}


def test_a_definitions_file_that_is_not_there_is_refused_before_the_node_is_asked() -> None:
    code, _, error = run("import_definitions", "nope.json")
    assert code == 65
    assert error.startswith("Error (argument validation): Bad argument: File nope.json does not exist\n")


def test_a_password_comes_from_stdin(node: ControlledNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("from stdin\n"))
    assert run("-q", "add_user", "anna") == (0, "", "")
    assert run("-q", "authenticate_user", "anna", "from stdin")[0] == 0


def test_policies_that_mirror_are_listed_and_checked_for(node: ControlledNode) -> None:
    check = "check_if_cluster_has_classic_queue_mirroring_policy"
    assert run("-q", check) == (0, "Cluster reported no classic queue mirroring policies\n", "")
    for words in (["add_vhost", "v1"], ["set_policy", "short", "^q", '{"max-length": 5}']):
        assert run("-q", *words)[0] == 0
    assert run("-q", "set_policy", "-p", "v1", "all", "^m", '{"ha-mode": "all"}')[0] == 0
    (row,) = rows("list_policies_with_classic_queue_mirroring")
    assert (row["vhost"], row["name"]) == ("v1", "all")
    assert run("-q", check)[0] == 69


def test_a_hashed_password_is_one_that_definitions_may_hold(node: ControlledNode, tmp_path: Path) -> None:
    code, out, _ = run("-q", "hash_password", "s3cret")
    assert code == 0
    user = {"name": "hashed", "password_hash": out.strip(), "tags": "",
            "hashing_algorithm": "rabbit_password_hashing_sha256"}  # fmt: skip
    file = tmp_path / "users.json"
    file.write_text(json.dumps({"users": [user]}))
    assert run("-q", "import_definitions", str(file))[0] == 0
    assert run("-q", "authenticate_user", "hashed", "s3cret")[0] == 0
    assert run("-q", "authenticate_user", "hashed", "other")[0] == 65


def test_waiting_for_a_process_ends_when_its_node_serves(node: ControlledNode, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    file.write_text(str(os.getpid()))
    code, out, _ = run("wait", str(file), "-t", "20")
    assert code == 0
    assert out.splitlines()[1:] == [
        f"pid is {os.getpid()}",
        f"Waiting for applications 'rabbit_and_plugins' to start on node '{NODE_NAME}'",
        f"Applications 'rabbit_and_plugins' are running on node '{NODE_NAME}'",
    ]
    assert run("-q", "wait", "--pid", str(os.getpid()))[0] == 0
    assert run("wait")[0] == run("wait", "--pid", "1", str(file))[0] == 65
    assert run("-q", "wait", str(tmp_path / "never"), "-t", "1")[0] == 75


def test_ping_and_stop_reach_the_node(node: ControlledNode) -> None:
    assert run("ping")[1].endswith("Ping succeeded\n")
    assert run("-q", "stop")[0] == 0
    assert node.stopped


def test_a_node_that_does_not_run_is_named_with_what_to_do(node: ControlledNode) -> None:
    code, out, error = run("-n", "absent", "-q", "list_users")
    assert (code, out) == (69, "")
    assert "unable to perform an operation on node 'absent@localhost'" in error
    assert "MIRRORMQ_RUNTIME_DIR" in error
    assert NODE_NAME in error


def test_only_the_owner_can_reach_the_socket(node: ControlledNode, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
    assert stat.S_IMODE(socket_path(tmp_path / "run", NODE_NAME).stat().st_mode) == 0o600


def test_flags_may_stand_anywhere(node: ControlledNode) -> None:
    assert run("list_users", "-q") == run("-q", "list_users")
    assert run("--formatter=json", "list_users") == run("list_users", "--formatter", "json")
    assert run("-q", "--", "add_user", "odd", "--password")[0] == 0


def test_help_names_every_command_and_shows_an_example() -> None:
    code, out, _ = run("help")
    assert code == 0
    assert all(f"   {name} " in out for name in COMMANDS)
    assert "Example: mirrormqctl set_policy" in run("help", "set_policy")[1]
    assert run("list_queues", "--help")[0] == 0


def test_a_plugin_that_is_not_built_in_is_not_enabled(node: ControlledNode) -> None:
    code, out, error = run("-q", "is_enabled", "rabbitmq_stomp", "rabbitmq_management")
    assert (code, out) == (69, "")
    assert error.startswith(
        f"Error:\nPlugin rabbitmq_stomp is not enabled on node {NODE_NAME}. Enabled plugins"
    )
    assert json.loads(run("is_enabled", "rabbitmq_stomp", "--formatter", "json")[2])["result"] == "error"
    assert run("list", "(")[0] == 65
