"""Waiting for the cluster: what a request has written is in force before it is answered."""

from __future__ import annotations

import asyncio

from mirrormq import limits
from mirrormq.metadata.store import MetadataStore


async def settled(store: MetadataStore) -> None:
    """Returns when all that was written here so far is applied here and on the other nodes that are there;
    raises TimeoutError if that takes too long. It may come about later nevertheless."""
    if not store.unsettled:
        return
    applied: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell() -> None:
        if not applied.done():
            applied.set_result(None)

    store.written(store.last_written, lambda: store.wait_applied_on_all(tell))
    await asyncio.wait_for(applied, limits.METADATA_WAIT_TIMEOUT_S)
