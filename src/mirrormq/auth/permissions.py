"""Permission checks against the metadata, cached until the metadata changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from mirrormq.auth import patterns
from mirrormq.auth.access_errors import DEFAULT_EXCHANGE_NAME
from mirrormq.metadata.records import User
from mirrormq.metadata.state import MetadataState

Access = Literal["configure", "write", "read"]
TopicAccess = Literal["write", "read"]

ANSWERS_CACHED_MAX = 65_536
"""Cached results, some 200 octets each; a full cache is cleared."""

IMPERSONATOR_TAG = "impersonator"
"""Tag of users that may publish with any user_id."""

DIRECT_USER = User("none", tags=[IMPERSONATOR_TAG])
"""User of connections that the broker opens to itself, for links whose URI names no host; RabbitMQ's name.
The user may do everything, and no client can log in with the name. If an ordinary user has this name, the
ordinary permissions apply."""


class Permissions:
    """Permission checks over one State."""

    def __init__(self, state: MetadataState, answers_max: int = ANSWERS_CACHED_MAX) -> None:
        self._state = state
        self._answers_max = answers_max
        self._version = state.access_version
        self._answers: dict[tuple[str, ...], bool] = {}

    def vhost_access(self, user: str, vhost: str) -> bool:
        """Whether the user may connect to the vhost. Any permission record suffices, even one that matches
        nothing."""
        return (user, vhost) in self._state.permissions or self._is_direct(user)

    def check(self, user: str, vhost: str, resource: str, access: Access) -> bool:
        """Whether the user may configure, write or read a queue or exchange; "" is the default exchange."""
        self._forget_if_changed()
        key = (user, vhost, resource, access)
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = self._decide(user, vhost, resource, access)
        return answer

    def check_topic(
        self,
        user: str,
        vhost: str,
        exchange: str,
        routing_key: str,
        access: TopicAccess,
        variables: Mapping[str, str] | None = None,
    ) -> bool:
        """Whether the user may publish with (write) or bind by (read) a routing key on a topic exchange.

        Without a topic permission for the exchange the result is True. In the pattern {username}, {vhost} and
        the names in `variables` (client_id) stand for their values; a name without a value stays unchanged.
        """
        permission = self._state.topic_permissions.get((user, vhost, exchange))
        if permission is None:
            return True
        pattern = permission.write if access == "write" else permission.read
        if "{" in pattern:
            known = {"username": user, "vhost": vhost, **(variables or {})}
            for name, value in known.items():
                pattern = pattern.replace(f"{{{name}}}", value)
        self._forget_if_changed()
        key = (pattern, routing_key)
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = patterns.permits(pattern, routing_key)
        return answer

    def user_id_allowed(self, user: User, claimed: str) -> bool:
        """Whether a message of this user may carry this user_id."""
        return claimed == user.name or IMPERSONATOR_TAG in user.tags

    def _decide(self, user: str, vhost: str, resource: str, access: Access) -> bool:
        permission = self._state.permissions.get((user, vhost))
        if permission is None:
            return self._is_direct(user)
        pattern: str = getattr(permission, access)
        return patterns.permits(pattern, resource or DEFAULT_EXCHANGE_NAME)

    def _is_direct(self, user: str) -> bool:
        return user == DIRECT_USER.name and user not in self._state.users

    def _forget_if_changed(self) -> None:
        if self._version != self._state.access_version or len(self._answers) >= self._answers_max:
            self._answers.clear()
            self._version = self._state.access_version
