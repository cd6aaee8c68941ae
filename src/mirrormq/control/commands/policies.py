"""Commands for policies and operator policies."""

from __future__ import annotations

from typing import Any

from mirrormq.control import hints
from mirrormq.control.commands.command_checks import json_value, validation_failed, vhost_of
from mirrormq.control.control_protocol import ControlError, Request
from mirrormq.control.definitions_json import policy_row
from mirrormq.control.node_interface import ControlledNode
from mirrormq.metadata.commands import DeleteOperatorPolicy, DeletePolicy, PutOperatorPolicy, PutPolicy
from mirrormq.metadata.policy_matching import (
    PolicyInvalid,
    overruled,
    validate_operator_policy,
    validate_policy,
    validate_policy_fields,
)
from mirrormq.metadata.records import OperatorPolicy, Policy
from mirrormq.metadata.state import MetadataState


def checked_policy(
    vhost: str, name: str, pattern: Any, apply_to: Any, definition: Any, priority: Any
) -> Policy:
    """Return a validated policy."""
    _check(validate_policy, pattern, apply_to, definition, priority)
    return Policy(vhost, name, pattern, apply_to, definition, priority)


def checked_operator_policy(
    vhost: str, name: str, pattern: Any, apply_to: Any, definition: Any, priority: Any
) -> OperatorPolicy:
    """Return a validated operator policy."""
    _check(validate_operator_policy, pattern, apply_to, definition, priority)
    return OperatorPolicy(vhost, name, pattern, apply_to, definition, priority)


def _check(validate: Any, pattern: Any, apply_to: Any, definition: Any, priority: Any) -> None:
    complaints: list[PolicyInvalid] = []
    try:
        if not isinstance(definition, dict):
            raise PolicyInvalid("definition should be an object")
        validate(definition)
    except PolicyInvalid as error:
        complaints.append(error)
    try:
        validate_policy_fields(pattern, apply_to, priority)
    except PolicyInvalid as error:
        complaints.append(error)
    if complaints:
        explanations = [hint for error in complaints for hint in _hints(error)]
        raise validation_failed("\n".join(map(str, complaints)), " ".join(explanations))


def _hints(error: PolicyInvalid) -> list[str]:
    unknown = [hints.no_such("policy setting", key, error.known) for key in error.unknown]
    return [*unknown, *([error.expected] if error.expected else [])]


def _overruled(policy: Policy, state: MetadataState) -> str:
    """Return a warning if another policy overrides this one on existing queues, else an empty text."""
    others = [
        each for each in state.policies.values() if each.vhost == policy.vhost and each.name != policy.name
    ]
    names = [queue.name for queue in state.queues.values() if queue.vhost == policy.vhost]
    hidden = list(overruled(policy, others, names))
    if not hidden:
        return ""
    queue, winner = hidden[0]
    count = f"queue '{queue}'" if len(hidden) == 1 else f"{len(hidden)} queues, such as '{queue}'"
    why = (
        f"has priority {winner.priority}, and '{policy.name}' has {policy.priority}"
        if winner.priority != policy.priority
        else f"has the same priority {policy.priority} and comes first by name"
    )
    return (
        f"Policy '{policy.name}' has no effect on {count}: policy '{winner.name}' {why}. "
        f"One policy applies to a queue: set '{policy.name}' again with a higher --priority, or join the two."
    )


def _fields(request: Request) -> tuple[str, str, str, str, Any, int]:
    name, pattern, definition = request.arguments
    priority = str(request.options.get("priority", "0"))
    try:
        number = int(priority)
    except ValueError:
        raise validation_failed(f"{priority} is not a number") from None
    apply_to = str(request.options.get("apply-to", "all"))
    return request.vhost, name, pattern, apply_to, json_value(definition), number


def set_policy(node: ControlledNode, request: Request) -> dict[str, str] | None:
    policy = checked_policy(*_fields(request))
    vhost_of(node, request.vhost)
    node.metadata.write(PutPolicy(policy))
    warning = _overruled(policy, node.metadata.state)
    return {"warning": warning} if warning else None


def set_operator_policy(node: ControlledNode, request: Request) -> None:
    policy = checked_operator_policy(*_fields(request))
    vhost_of(node, request.vhost)
    node.metadata.write(PutOperatorPolicy(policy))


def clear_policy(node: ControlledNode, request: Request) -> None:
    _check_present(request.vhost, request.arguments[0], node.metadata.state.policies)
    node.metadata.write(DeletePolicy(request.vhost, request.arguments[0]))


def clear_operator_policy(node: ControlledNode, request: Request) -> None:
    _check_present(request.vhost, request.arguments[0], node.metadata.state.operator_policies)
    node.metadata.write(DeleteOperatorPolicy(request.vhost, request.arguments[0]))


def _check_present(vhost: str, name: str, table: Any) -> None:
    if (vhost, name) not in table:
        raise ControlError("Parameter does not exist")


def list_policies(node: ControlledNode, request: Request) -> list[dict[str, Any]]:
    return _rows(node, request, node.metadata.state.policies.values())


def list_operator_policies(node: ControlledNode, request: Request) -> list[dict[str, Any]]:
    return _rows(node, request, node.metadata.state.operator_policies.values())


def _rows(node: ControlledNode, request: Request, found: Any) -> list[dict[str, Any]]:
    vhost_of(node, request.vhost)
    return [policy_row(policy) for policy in found if policy.vhost == request.vhost]


COMMANDS = {
    "set_policy": set_policy,
    "clear_policy": clear_policy,
    "list_policies": list_policies,
    "set_operator_policy": set_operator_policy,
    "clear_operator_policy": clear_operator_policy,
    "list_operator_policies": list_operator_policies,
}
