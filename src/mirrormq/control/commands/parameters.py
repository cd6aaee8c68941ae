"""Commands for runtime parameters of vhosts and of the cluster.

RabbitMQ stores operator policies and vhost limits as parameters. They are separate records here, but are
listed and set under the components `operator_policy` and `vhost-limits`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mirrormq.auth.limit_checks import VHOST_LIMITS
from mirrormq.bridges import federation_parameters, shovel_parameters
from mirrormq.control import hints
from mirrormq.control.commands.command_checks import json_value, validation_failed, vhost_of
from mirrormq.control.commands.policies import checked_operator_policy, checked_policy
from mirrormq.control.control_protocol import ControlError, Request
from mirrormq.control.node_interface import ControlledNode
from mirrormq.metadata.cluster_name import shown_global_parameters
from mirrormq.metadata.commands import (
    Command,
    DeleteGlobalParameter,
    DeleteOperatorPolicy,
    DeleteParameter,
    PutGlobalParameter,
    PutOperatorPolicy,
    PutParameter,
    PutPolicy,
    PutVhost,
)
from mirrormq.metadata.records import GlobalParameter, Parameter
from mirrormq.metadata.state import MetadataState
from mirrormq.wire.erlang_terms import properties, term

VHOST_LIMITS_COMPONENT = "vhost-limits"
OPERATOR_POLICY_COMPONENT = "operator_policy"
POLICY_COMPONENT = "policy"
POLICY_KEYS = ("apply-to", "definition", "pattern", "priority")
POLICY_NOT_A_PARAMETER = "policies may not be set using this method"
SHOVEL_COMPONENT = "shovel"
COMPONENTS = (
    *federation_parameters.COMPONENTS,
    SHOVEL_COMPONENT,
    OPERATOR_POLICY_COMPONENT,
    VHOST_LIMITS_COMPONENT,
)


def parameter_command(state: MetadataState, vhost: str, component: str, name: str, value: Any) -> Command:
    """Return the command that sets a parameter, or raise ControlError with RabbitMQ's text."""
    if component == VHOST_LIMITS_COMPONENT:
        limits = _checked_limits(name, value)
        return PutVhost(msgspec.structs.replace(state.vhosts[vhost], limits=limits))
    if component in (OPERATOR_POLICY_COMPONENT, POLICY_COMPONENT):
        _check_keys(name, value, POLICY_KEYS, ("definition", "pattern", "priority"))
        given = value.get("definition")
        definition = dict(given) if isinstance(given, list) else given
        fields = (value.get("pattern"), value.get("apply-to", "all"), definition, value.get("priority", 0))
        if component == POLICY_COMPONENT:
            return PutPolicy(checked_policy(vhost, name, *fields))
        return PutOperatorPolicy(checked_operator_policy(vhost, name, *fields))
    if component in federation_parameters.COMPONENTS:
        if faults := federation_parameters.faults(component, name, value):
            raise validation_failed("\n".join(faults), _unknown_key(component, value))
    elif component == SHOVEL_COMPONENT:
        if faults := shovel_parameters.faults(name, value):
            raise validation_failed("\n".join(faults), _unknown_key(component, value))
    else:
        hint = hints.no_such("component", component, COMPONENTS)
        raise validation_failed(f"component {component} not found", hint)
    return PutParameter(Parameter(vhost, component, name, value))


def _unknown_key(component: str, value: Any) -> str:
    """Return a hint for the first unknown key of a shovel, an upstream or the entries of an upstream set."""
    for given in value if isinstance(value, list) else [value]:
        if isinstance(given, dict):
            known = {
                SHOVEL_COMPONENT: shovel_parameters.keys_of(given),
                federation_parameters.UPSTREAM: federation_parameters.UPSTREAM_KEYS,
                federation_parameters.UPSTREAM_SET: federation_parameters.ENTRY_KEYS,
            }.get(component, ())
            names = {key.name for key in known}
            for key in given:
                if names and key not in names:
                    return hints.no_such("key", key, names)
    return ""


def _check_keys(name: str, value: Any, known: tuple[str, ...], needed: tuple[str, ...]) -> None:
    """Check that the value is an object with all required keys and no unknown ones."""
    if not isinstance(value, dict):
        raise validation_failed(f"{name} not a list {term(value)}")
    unknown = {key: inner for key, inner in value.items() if key not in known}
    complaints = [f"Unrecognised terms {properties(unknown)} in {name}"] if unknown else []
    complaints += [f'Key "{key}" not found in {name}' for key in needed if key not in value]
    if complaints:
        hint = hints.no_such("key", next(iter(unknown)), known) if unknown else ""
        raise validation_failed("\n".join(complaints), hint)


def _checked_limits(name: str, value: Any) -> dict[str, int]:
    """Return validated vhost limits; RabbitMQ writes no limits as an empty list."""
    if value == []:
        return {}
    _check_keys(name, value, VHOST_LIMITS, ())
    for limit, number in value.items():
        if isinstance(number, bool) or not isinstance(number, int):
            raise validation_failed(f"{limit} should be a number, actually was {term(number)}")
    return dict(value)


def set_parameter(node: ControlledNode, request: Request) -> None:
    component, name, value = request.arguments
    vhost_of(node, request.vhost)
    if component == POLICY_COMPONENT:
        raise ControlError(POLICY_NOT_A_PARAMETER)
    node.metadata.write(
        parameter_command(node.metadata.state, request.vhost, component, name, json_value(value))
    )


def clear_parameter(node: ControlledNode, request: Request) -> None:
    component, name = request.arguments
    state, vhost = node.metadata.state, request.vhost
    command: Command
    if component == VHOST_LIMITS_COMPONENT and vhost in state.vhosts and state.vhosts[vhost].limits:
        command = PutVhost(msgspec.structs.replace(state.vhosts[vhost], limits={}))
    elif component == OPERATOR_POLICY_COMPONENT and (vhost, name) in state.operator_policies:
        command = DeleteOperatorPolicy(vhost, name)
    elif (vhost, component, name) in state.parameters:
        command = DeleteParameter(vhost, component, name)
    else:
        raise ControlError("Parameter does not exist")
    node.metadata.write(command)


def parameter_rows(state: MetadataState) -> list[dict[str, Any]]:
    """Return every parameter of every vhost, including limits and operator policies."""
    rows = [
        {"vhost": vhost.name, "component": VHOST_LIMITS_COMPONENT, "name": "limits", "value": vhost.limits}
        for vhost in state.vhosts.values()
        if vhost.limits
    ]
    rows += [
        {
            "vhost": policy.vhost,
            "component": OPERATOR_POLICY_COMPONENT,
            "name": policy.name,
            "value": {
                "pattern": policy.pattern,
                "definition": policy.definition,
                "priority": policy.priority,
                "apply-to": policy.apply_to,
            },
        }
        for policy in state.operator_policies.values()
    ]
    rows += [
        {"vhost": found.vhost, "component": found.component, "name": found.name, "value": found.value}
        for found in state.parameters.values()
    ]
    return rows


def list_parameters(node: ControlledNode, request: Request) -> list[dict[str, Any]]:
    vhost_of(node, request.vhost)
    return [row for row in parameter_rows(node.metadata.state) if row["vhost"] == request.vhost]


def set_global_parameter(node: ControlledNode, request: Request) -> None:
    name, value = request.arguments
    node.metadata.write(PutGlobalParameter(GlobalParameter(name, json_value(value))))


def clear_global_parameter(node: ControlledNode, request: Request) -> None:
    if request.arguments[0] not in shown_global_parameters(node.metadata.state):
        raise ControlError("Parameter does not exist")
    node.metadata.write(DeleteGlobalParameter(request.arguments[0]))


def list_global_parameters(node: ControlledNode, request: Request) -> list[dict[str, Any]]:
    found = shown_global_parameters(node.metadata.state).values()
    return [{"name": parameter.name, "value": parameter.value} for parameter in found]


COMMANDS = {
    "set_parameter": set_parameter,
    "clear_parameter": clear_parameter,
    "list_parameters": list_parameters,
    "set_global_parameter": set_global_parameter,
    "clear_global_parameter": clear_global_parameter,
    "list_global_parameters": list_global_parameters,
}
