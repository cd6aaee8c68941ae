"""A node that starts on the data of release 0.1 (revision af107d7) serves everything that was there."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from tests.durability.node import Node
from tests.durability.traffic import publish_all, ready

DATA = Path(__file__).parent / "data"
EXPECTED = {"work": 40, "numbered": 7, "emptied": 0}
"""Messages of each queue. One more queue has a message that expires 49 days after it was made."""


@pytest.mark.parametrize("ending", ["clean", "killed"])
def test_a_node_upgrades_the_data_of_release_0_1(ending: str) -> None:
    with Node() as node:
        node.end()
        shutil.rmtree(node.data)
        with tarfile.open(DATA / f"release-0.1-{ending}.tar.xz") as archive:
            archive.extractall(node.directory)
        node.boot()
        assert {queue: ready(node, queue) for queue in EXPECTED} == EXPECTED
        assert (node.data / "journal" / "manifest").exists()
        publish_all(node, "work", 5)
        node.kill()
        node.boot()
        assert ready(node, "work") == EXPECTED["work"] + 5
        assert "damaged" not in node.output
