"""All that goes over a link. Whatever is not the cluster's own goes to those who serve clients."""

from __future__ import annotations

from mirrormq.cluster.cluster_messages import ClusterMessage
from mirrormq.cluster.command_messages import CommandReply, CommandRequest
from mirrormq.cluster.controller import ControllerMessage
from mirrormq.remote.remote_messages import RemoteMessage
from mirrormq.replication.ring_messages import RingBatch

LinkMessage = ClusterMessage | ControllerMessage | CommandRequest | CommandReply | RemoteMessage | RingBatch
