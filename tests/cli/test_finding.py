"""Default node of mirrormqctl if the command line names none."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrormq.cli.node_discovery import DEFAULT_NODE, default_node, runtime_directory


@pytest.mark.parametrize(
    ("sockets", "meant"),
    [
        ([], DEFAULT_NODE),
        (["mirrormq@box.example"], "mirrormq@box.example"),
        (["orders@localhost"], "orders@localhost"),
        (["mirror1@localhost", "mirror2@localhost"], DEFAULT_NODE),
        (["mirror2@localhost"], DEFAULT_NODE),
        (["a@box", "b@box"], DEFAULT_NODE),
        (["mirror1@localhost", "mirrormq@box.example"], DEFAULT_NODE),
    ],
)
def test_the_only_node_is_meant(tmp_path: Path, sockets: list[str], meant: str) -> None:
    """Check that a second node of a local cluster does not replace a stopped first one."""
    for name in sockets:
        (tmp_path / f"{name}.sock").touch()
    assert default_node({}, tmp_path) == meant
    assert default_node({"MIRRORMQ_NODE": "chosen@box"}, tmp_path) == "chosen@box"


def test_a_directory_that_is_not_there_has_no_nodes(tmp_path: Path) -> None:
    assert default_node({}, tmp_path / "none") == DEFAULT_NODE


def test_the_services_directory_is_looked_into_if_the_users_own_has_nothing(tmp_path: Path) -> None:
    own, service = tmp_path / "state", tmp_path / "service"
    environment = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(own)}
    usual = runtime_directory(environment, service)
    assert usual != service and usual.is_relative_to(own)
    service.mkdir()
    assert runtime_directory(environment, service) == usual
    (service / "mirrormq@box.sock").touch()
    assert runtime_directory(environment, service) == service
    assert runtime_directory({**environment, "MIRRORMQ_RUNTIME_DIR": str(tmp_path)}, service) == tmp_path
    usual.mkdir(parents=True)
    (usual / "mirror1@localhost.sock").touch()
    assert runtime_directory(environment, service) == usual
