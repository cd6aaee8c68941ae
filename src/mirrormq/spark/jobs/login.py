"""Login before Spark starts: a wrong password or vhost is told at once, not after Java has come up."""

from __future__ import annotations

from collections.abc import Sequence

from mirrormq.spark.client.address import Address
from mirrormq.spark.client.errors import BrokerError, Lost
from mirrormq.spark.client.nodes import Nodes
from mirrormq.spark.errors import PipelineError


def check_login(addresses: Sequence[Address]) -> None:
    """Log in once. A cluster that does not answer may be starting: the job itself waits for it."""
    try:
        Nodes(addresses, patience_s=0.0).connect().close()
    except Lost:
        pass
    except BrokerError as error:
        where = ", ".join(address.where for address in addresses)
        raise PipelineError(f"no login at {where}: {error}") from None
