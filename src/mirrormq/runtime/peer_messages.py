"""Message types of peer links. Messages that are not the cluster's own go to the application."""

from __future__ import annotations

from mirrormq.cluster.cluster_messages import ClusterMessage
from mirrormq.cluster.command_messages import CommandReply, CommandRequest
from mirrormq.cluster.controller import ControllerMessage
from mirrormq.remote.remote_messages import RemoteMessage
from mirrormq.replication.ring_messages import RingBatch

LinkMessage = ClusterMessage | ControllerMessage | CommandRequest | CommandReply | RemoteMessage | RingBatch
