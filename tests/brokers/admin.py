"""Administration of both brokers: users, permissions, policies, limits, tracing, alarms.

RabbitMQ is administered through its management API, because a run of `rabbitmqctl` costs most of a second.
`rabbitmqctl` is run only where the API has no function. MirrorMQ is administered through `mirrormqctl`, whose
commands and arguments are those of `rabbitmqctl`, so every call here also tests them.
"""

from __future__ import annotations

import base64
import http.client
import json
import tempfile
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

if TYPE_CHECKING:
    from tests.brokers.mirrormq import MirrorMQ
    from tests.brokers.rabbitmq import RabbitMQ

Definition = dict[str, Any]


class Admin(ABC):
    """Orders to one running broker; each returns when the order has been carried out."""

    OF_A_VHOST: ClassVar[frozenset[str]] = frozenset(
        [
            "set_permissions",
            "set_topic_permissions",
            "set_policy",
            "clear_policy",
            "set_operator_policy",
            "clear_operator_policy",
            "set_vhost_limits",
            "clear_vhost_limits",
            "trace_on",
            "trace_off",
        ]
    )
    """Orders whose first argument is a vhost."""

    @abstractmethod
    def prepare(self, vhosts: list[str]) -> None:
        """Create these vhosts, with all permissions for guest."""

    @abstractmethod
    def enter(self, vhost: str) -> None:
        """Now this one is: it must exist and be open to guest."""

    @abstractmethod
    def leave(self, vhost: str) -> None:
        """Release a vhost that no script uses again."""

    @abstractmethod
    def import_definitions(self, definitions: Definition) -> None: ...
    @abstractmethod
    def add_vhost(self, name: str) -> None: ...
    @abstractmethod
    def delete_vhost(self, name: str) -> None: ...
    @abstractmethod
    def add_user(self, name: str, password: str, *tags: str) -> None: ...
    @abstractmethod
    def delete_user(self, name: str) -> None: ...
    @abstractmethod
    def set_permissions(self, vhost: str, user: str, configure: str, write: str, read: str) -> None: ...
    @abstractmethod
    def set_topic_permissions(self, vhost: str, user: str, exchange: str, write: str, read: str) -> None: ...
    @abstractmethod
    def set_policy(
        self,
        vhost: str,
        name: str,
        pattern: str,
        definition: Definition,
        apply_to: str = "all",
        priority: int = 0,
    ) -> None: ...
    @abstractmethod
    def clear_policy(self, vhost: str, name: str) -> None: ...
    @abstractmethod
    def set_operator_policy(
        self,
        vhost: str,
        name: str,
        pattern: str,
        definition: Definition,
        apply_to: str = "all",
        priority: int = 0,
    ) -> None: ...
    @abstractmethod
    def clear_operator_policy(self, vhost: str, name: str) -> None: ...
    @abstractmethod
    def set_vhost_limits(self, vhost: str, limits: Definition) -> None: ...
    @abstractmethod
    def clear_vhost_limits(self, vhost: str) -> None: ...
    @abstractmethod
    def set_user_limits(self, user: str, limits: Definition) -> None: ...
    @abstractmethod
    def trace_on(self, vhost: str) -> None: ...
    @abstractmethod
    def trace_off(self, vhost: str) -> None: ...
    @abstractmethod
    def set_vm_memory_high_watermark(self, fraction: str) -> None: ...


class RabbitAdmin(Admin):
    """Through the management API; MirrorMQ understands it, too."""

    def __init__(self, broker: RabbitMQ | MirrorMQ) -> None:
        self._broker = broker
        self._local = threading.local()
        self._headers = {
            "Authorization": "Basic " + base64.b64encode(b"guest:guest").decode(),
            "Content-Type": "application/json",
        }

    def request(self, method: str, path: list[str], body: Any = None) -> Any:
        address = "/api/" + "/".join(quote(part, safe="") for part in path)
        try:
            status, data = self._exchange(method, address, body)
        except (http.client.RemoteDisconnected, ConnectionResetError):  # it was idle for too long
            del self._local.connection
            status, data = self._exchange(method, address, body)
        if status >= 300:
            raise RuntimeError(f"{method} {address}: {status} {data.decode(errors='replace')}")
        return json.loads(data) if data else None

    def _exchange(self, method: str, address: str, body: Any) -> tuple[int, bytes]:
        if not hasattr(self._local, "connection"):
            self._local.connection = http.client.HTTPConnection(
                "127.0.0.1", self._broker.management_port, timeout=60
            )
        connection: http.client.HTTPConnection = self._local.connection
        connection.request(method, address, None if body is None else json.dumps(body), self._headers)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def prepare(self, vhosts: list[str]) -> None:
        """Nothing yet: a new vhost takes RabbitMQ the longer the more it has, so few live at once."""

    def enter(self, vhost: str) -> None:
        self.add_vhost(vhost)

    def leave(self, vhost: str) -> None:
        self.delete_vhost(vhost)

    def import_definitions(self, definitions: Definition) -> None:
        self.request("POST", ["definitions"], definitions)

    def add_vhost(self, name: str) -> None:
        self.request("PUT", ["vhosts", name], {})

    def delete_vhost(self, name: str) -> None:
        self.request("DELETE", ["vhosts", name])

    def add_user(self, name: str, password: str, *tags: str) -> None:
        self.request("PUT", ["users", name], {"password": password, "tags": ",".join(tags)})

    def delete_user(self, name: str) -> None:
        self.request("DELETE", ["users", name])

    def set_permissions(self, vhost: str, user: str, configure: str, write: str, read: str) -> None:
        self.request(
            "PUT", ["permissions", vhost, user], {"configure": configure, "write": write, "read": read}
        )

    def set_topic_permissions(self, vhost: str, user: str, exchange: str, write: str, read: str) -> None:
        self.request(
            "PUT", ["topic-permissions", vhost, user], {"exchange": exchange, "write": write, "read": read}
        )

    def set_policy(
        self,
        vhost: str,
        name: str,
        pattern: str,
        definition: Definition,
        apply_to: str = "all",
        priority: int = 0,
    ) -> None:
        self._put_policy("policies", vhost, name, pattern, definition, apply_to, priority)

    def clear_policy(self, vhost: str, name: str) -> None:
        self.request("DELETE", ["policies", vhost, name])

    def set_operator_policy(
        self,
        vhost: str,
        name: str,
        pattern: str,
        definition: Definition,
        apply_to: str = "all",
        priority: int = 0,
    ) -> None:
        self._put_policy("operator-policies", vhost, name, pattern, definition, apply_to, priority)

    def clear_operator_policy(self, vhost: str, name: str) -> None:
        self.request("DELETE", ["operator-policies", vhost, name])

    def _put_policy(self, kind: str, vhost: str, name: str, *rest: Any) -> None:
        pattern, definition, apply_to, priority = rest
        body = {"pattern": pattern, "definition": definition, "apply-to": apply_to, "priority": priority}
        self.request("PUT", [kind, vhost, name], body)

    def set_vhost_limits(self, vhost: str, limits: Definition) -> None:
        for name, value in limits.items():
            self.request("PUT", ["vhost-limits", vhost, name], {"value": value})

    def clear_vhost_limits(self, vhost: str) -> None:
        for name in ("max-connections", "max-queues"):
            self.request("DELETE", ["vhost-limits", vhost, name])

    def set_user_limits(self, user: str, limits: Definition) -> None:
        for name, value in limits.items():
            self.request("PUT", ["user-limits", user, name], {"value": value})

    def trace_on(self, vhost: str) -> None:
        self.request("PUT", ["vhosts", vhost], {"tracing": True})

    def trace_off(self, vhost: str) -> None:
        self.request("PUT", ["vhosts", vhost], {"tracing": False})

    def set_vm_memory_high_watermark(self, fraction: str) -> None:
        self._broker.control("set_vm_memory_high_watermark", fraction)


class MirrorAdmin(Admin):
    """Through mirrormqctl."""

    def __init__(self, broker: MirrorMQ) -> None:
        self._control = broker.control

    def prepare(self, vhosts: list[str]) -> None:
        """All at once: starting a program for each would take longer than the scripts."""
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        self.import_definitions(
            {
                "vhosts": [{"name": name} for name in vhosts],
                "permissions": [{"user": "guest", "vhost": name, **everything} for name in vhosts],
            }
        )

    def enter(self, vhost: str) -> None:
        """Do nothing: prepare() has created the vhost."""

    def leave(self, vhost: str) -> None:
        """Do nothing: an idle vhost costs the node nothing."""

    def import_definitions(self, definitions: Definition) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(definitions, file)
            file.flush()
            self._control("import_definitions", file.name)

    def add_vhost(self, name: str) -> None:
        self._control("add_vhost", name)

    def delete_vhost(self, name: str) -> None:
        self._control("delete_vhost", name)

    def add_user(self, name: str, password: str, *tags: str) -> None:
        self._control("add_user", name, password)
        if tags:
            self._control("set_user_tags", name, *tags)

    def delete_user(self, name: str) -> None:
        self._control("delete_user", name)

    def set_permissions(self, vhost: str, user: str, configure: str, write: str, read: str) -> None:
        self._control("set_permissions", "-p", vhost, user, configure, write, read)

    def set_topic_permissions(self, vhost: str, user: str, exchange: str, write: str, read: str) -> None:
        self._control("set_topic_permissions", "-p", vhost, user, exchange, write, read)

    def set_policy(
        self,
        vhost: str,
        name: str,
        pattern: str,
        definition: Definition,
        apply_to: str = "all",
        priority: int = 0,
    ) -> None:
        self._policy("set_policy", vhost, name, pattern, definition, apply_to, priority)

    def clear_policy(self, vhost: str, name: str) -> None:
        self._control("clear_policy", "-p", vhost, name)

    def set_operator_policy(
        self,
        vhost: str,
        name: str,
        pattern: str,
        definition: Definition,
        apply_to: str = "all",
        priority: int = 0,
    ) -> None:
        self._policy("set_operator_policy", vhost, name, pattern, definition, apply_to, priority)

    def clear_operator_policy(self, vhost: str, name: str) -> None:
        self._control("clear_operator_policy", "-p", vhost, name)

    def _policy(self, verb: str, vhost: str, name: str, *rest: Any) -> None:
        pattern, definition, apply_to, priority = rest
        self._control(
            verb,
            "-p",
            vhost,
            "--apply-to",
            apply_to,
            "--priority",
            str(priority),
            name,
            pattern,
            json.dumps(definition),
        )

    def set_vhost_limits(self, vhost: str, limits: Definition) -> None:
        self._control("set_vhost_limits", "-p", vhost, json.dumps(limits))

    def clear_vhost_limits(self, vhost: str) -> None:
        self._control("clear_vhost_limits", "-p", vhost)

    def set_user_limits(self, user: str, limits: Definition) -> None:
        self._control("set_user_limits", user, json.dumps(limits))

    def trace_on(self, vhost: str) -> None:
        self._control("trace_on", "-p", vhost)

    def trace_off(self, vhost: str) -> None:
        self._control("trace_off", "-p", vhost)

    def set_vm_memory_high_watermark(self, fraction: str) -> None:
        self._control("set_vm_memory_high_watermark", fraction)
