"""All that goes over a link. Whatever is not the cluster's own goes to those who serve clients."""

from __future__ import annotations

from mirrormq.cluster.messages import ClusterMessage
from mirrormq.cluster.questions import VerbAnswered, VerbAsked
from mirrormq.cluster.steward import StewardMessage
from mirrormq.remote.messages import RemoteMessage
from mirrormq.replication.messages import RingMail

LinkMessage = ClusterMessage | StewardMessage | VerbAsked | VerbAnswered | RemoteMessage | RingMail
