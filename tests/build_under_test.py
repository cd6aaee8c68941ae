"""Build of the message core that the test process itself runs: pure, unless MIRRORMQ_BUILD says otherwise.

Tests patch the core, and a compiled caller ignores a patched method: such a test would prove nothing. The
nodes that tests start as processes run the compiled core if there is one. `make test-compiled` runs the
core's tests in a process with the compiled core.
"""

from __future__ import annotations

import os

import pytest

from mirrormq import builds

builds.choice.demand(os.environ.get("MIRRORMQ_BUILD") or builds.PURE)


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that patch the core if the core is compiled."""
    if builds.choice.demanded == builds.PURE:
        return
    patching = [item for item in items if item.get_closest_marker("patches_core")]
    if patching:
        config.hook.pytest_deselected(items=patching)
        items[:] = [item for item in items if item not in patching]
