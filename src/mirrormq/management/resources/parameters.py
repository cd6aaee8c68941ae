"""Resource: parameters of vhosts and of the cluster, including operator policies and vhost limits."""

from __future__ import annotations

from typing import Any

import msgspec

from mirrormq.bridges.local_uris import local_uri_refusal
from mirrormq.control.commands.command_checks import validation_failed
from mirrormq.control.commands.parameters import (
    OPERATOR_POLICY_COMPONENT,
    POLICY_COMPONENT,
    POLICY_NOT_A_PARAMETER,
    VHOST_LIMITS_COMPONENT,
    parameter_command,
    parameter_rows,
)
from mirrormq.control.control_protocol import ControlError
from mirrormq.management import access
from mirrormq.management.api_request import CREATED, ApiRequest, EmptyReply, ListReply
from mirrormq.management.http_errors import bad_request, html_escaped, not_found
from mirrormq.management.route_table import ApiRoute
from mirrormq.metadata import commands, records
from mirrormq.metadata.cluster_name import shown_global_parameters


def _rows(call: ApiRequest) -> list[dict[str, Any]]:
    vhosts = set(call.chosen_vhosts())
    component = call.parts.get("component")
    found = [
        row
        for row in parameter_rows(call.state)
        if row["vhost"] in vhosts and component in (None, row["component"])
    ]
    return sorted(found, key=lambda row: (row["vhost"], row["component"], row["name"]))


def list_parameters(call: ApiRequest) -> ListReply:
    return ListReply(_rows(call), dict)


def show(call: ApiRequest) -> dict[str, Any]:
    for row in _rows(call):
        if row["name"] == call.name:
            return row
    raise not_found()


def put(call: ApiRequest) -> EmptyReply:
    value = call.body("value")["value"]
    if call.parts["component"] == POLICY_COMPONENT:
        raise bad_request(POLICY_NOT_A_PARAMETER)
    existed = any(row["name"] == call.name for row in _rows(call))
    component = call.parts["component"]
    try:
        command = parameter_command(call.state, call.vhost, component, call.name, value)
        if refusal := local_uri_refusal(call.user, call.may_enter, call.vhost, component, value):
            raise validation_failed(refusal)
    except ControlError as error:
        raise bad_request(html_escaped(error.text)) from None
    call.write(command)
    return EmptyReply() if existed else EmptyReply(CREATED)


def delete(call: ApiRequest) -> EmptyReply:
    show(call)
    component = call.parts["component"]
    if component == VHOST_LIMITS_COMPONENT:
        call.write(commands.PutVhost(msgspec.structs.replace(call.state.vhosts[call.vhost], limits={})))
    elif component == OPERATOR_POLICY_COMPONENT:
        call.write(commands.DeleteOperatorPolicy(call.vhost, call.name))
    else:
        call.write(commands.DeleteParameter(call.vhost, component, call.name))
    return EmptyReply()


def list_global(call: ApiRequest) -> ListReply:
    kept = shown_global_parameters(call.state)
    return ListReply([kept[name] for name in sorted(kept)], msgspec.structs.asdict)


def show_global(call: ApiRequest) -> dict[str, Any]:
    found = shown_global_parameters(call.state).get(call.name)
    if found is None:
        raise not_found()
    return msgspec.structs.asdict(found)


def put_global(call: ApiRequest) -> EmptyReply:
    value = call.body("value")["value"]
    existed = call.name in shown_global_parameters(call.state)
    call.write(commands.PutGlobalParameter(records.GlobalParameter(call.name, value)))
    return EmptyReply() if existed else EmptyReply(CREATED)


def delete_global(call: ApiRequest) -> EmptyReply:
    show_global(call)
    call.write(commands.DeleteGlobalParameter(call.name))
    return EmptyReply()


_ONE = {"GET": show, "PUT": put, "DELETE": delete}
_GLOBAL = {"GET": show_global, "PUT": put_global, "DELETE": delete_global}

ROUTES = [
    ApiRoute("parameters", access.policymaker, {"GET": list_parameters}),
    ApiRoute("parameters/{component}", access.policymaker, {"GET": list_parameters}),
    ApiRoute("parameters/{component}/{vhost}", access.policymaker, {"GET": list_parameters}),
    ApiRoute("parameters/{component}/{vhost}/{name}", access.policymaker, _ONE),
    ApiRoute("global-parameters", access.policymaker, {"GET": list_global}),
    ApiRoute("global-parameters/{name}", access.policymaker, _GLOBAL),
]
