"""Every test with sockets runs on uvloop, as nodes do, and on asyncio's own loop."""

from __future__ import annotations

import asyncio

import pytest
import uvloop


@pytest.fixture(params=["uvloop", "asyncio"])
def event_loop_policy(request: pytest.FixtureRequest) -> asyncio.AbstractEventLoopPolicy:
    return uvloop.EventLoopPolicy() if request.param == "uvloop" else asyncio.DefaultEventLoopPolicy()
