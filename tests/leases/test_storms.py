"""Many histories of a job on three whole brokers whose masters fail, are cut off and change (`storm`).

STORMS=500 pytest tests/leases/test_storms.py      for more histories
"""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec
import pytest

from mirrormq.metadata import commands as c
from mirrormq.metadata import lease_commands
from mirrormq.metadata import state as state_module
from mirrormq.metadata.state import MetadataState
from mirrormq.queues import lease_operations
from tests.leases.storm import run

STORMS = int(os.environ.get("STORMS", "20"))
SEEDS_TO_FIND = 60
"""Seeds to try: one of the first few finds each mutant."""


@pytest.mark.parametrize("block", range(4))
def test_everything_is_settled_once(block: int) -> None:
    settled = epochs = 0
    for seed in range(block * STORMS // 4, (block + 1) * STORMS // 4):
        try:
            storm = run(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        settled += storm.job.number
        epochs += storm.cluster.record("q").ring.epoch
    assert settled > STORMS, "takes must have been settled"
    assert epochs > STORMS // 4, "masters must have changed"


def does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: lease messages that are not safe."""
    monkeypatch.setattr(lease_operations, "when_safe", lambda queue, reported: reported())


def takes_any_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: accept a take of any epoch."""

    def take(state: MetadataState, command: c.TakeMessages) -> None:
        ring = state.queues[state.queue_keys[command.queue_id]].ring
        incarnation = state.nodes[ring.master].incarnation
        lease_commands.take_messages(
            state,
            msgspec.structs.replace(command, epoch=ring.epoch, node=ring.master, incarnation=incarnation),
        )

    monkeypatch.setitem(state_module._APPLY, c.TakeMessages, take)


@pytest.mark.parametrize("mutant", [does_not_wait, takes_any_epoch])
def test_a_broker_that_is_wrong_is_found_out(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(SEEDS_TO_FIND):
            run(seed)
