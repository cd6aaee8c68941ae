"""Dials that are answered at the last moment: the next dial is made in every case."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.peers.ends import End, linked, started, until

pytestmark = pytest.mark.parametrize("turns", range(6))


async def test_a_connection_that_opens_when_the_dial_is_given_up_does_not_end_the_dialling(
    turns: int,
) -> None:
    """Block the loop until both the connection and its timeout are due, so that it sees both at once."""
    a, b = End("a@x", dial_timeout_s=0.05), End("b@x")
    async with started(a, b):
        a.dial(b)
        for _ in range(turns):
            await asyncio.sleep(0)
        time.sleep(0.2)  # noqa: ASYNC251 (the blocked loop is the point)
        await until(lambda: linked(a, b), 10)
