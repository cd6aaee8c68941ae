"""Apply barrier of a request: wait until the cluster has applied what the request has written."""

from __future__ import annotations

import asyncio

from mirrormq import limits
from mirrormq.metadata.store import MetadataStore


async def settled(store: MetadataStore) -> None:
    """Return when every connected node has applied all writes of this node. Raise TimeoutError if that
    takes too long; the writes may still be applied later."""
    if not store.unsettled:
        return
    applied: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def complete() -> None:
        if not applied.done():
            applied.set_result(None)

    store.written(store.last_written, lambda: store.wait_applied_on_all(complete))
    await asyncio.wait_for(applied, limits.METADATA_WAIT_TIMEOUT_S)
