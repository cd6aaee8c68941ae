"""Login check before Spark starts: a wrong password or vhost is reported at once, not after Java has
started."""

from __future__ import annotations

from collections.abc import Sequence

from mirrormq.client.amqp_uri import AmqpUri
from mirrormq.spark.client.client_errors import BrokerError, ConnectionLost
from mirrormq.spark.client.node_selection import Nodes
from mirrormq.spark.pipeline_errors import PipelineError


def check_login(addresses: Sequence[AmqpUri]) -> None:
    """Log in once. Ignore a cluster that does not reply, because it may be starting: the job itself waits for
    it."""
    try:
        Nodes(addresses, patience_s=0.0).connect().close()
    except ConnectionLost:
        pass
    except BrokerError as error:
        where = ", ".join(address.where for address in addresses)
        raise PipelineError(f"no login at {where}: {error}") from None
