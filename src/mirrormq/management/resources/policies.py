"""Resource: policies and operator policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mirrormq.control.commands.policies import checked_operator_policy, checked_policy
from mirrormq.control.control_protocol import ControlError
from mirrormq.control.definitions_json import policy_row
from mirrormq.management import access
from mirrormq.management.api_request import CREATED, ApiRequest, EmptyReply, ListReply
from mirrormq.management.http_errors import bad_request, html_escaped, not_found
from mirrormq.management.route_table import JSON, ApiRoute
from mirrormq.metadata import commands, records

Kept = Mapping[tuple[str, str], records.Policy | records.OperatorPolicy]


def _listed(call: ApiRequest, kept: Kept) -> ListReply:
    vhosts = set(call.chosen_vhosts())
    return ListReply([kept[key] for key in sorted(kept) if key[0] in vhosts], policy_row)


def _one(call: ApiRequest, kept: Kept) -> dict[str, Any]:
    policy = kept.get((call.vhost, call.name))
    if policy is None:
        raise not_found()
    return policy_row(policy)


def _fields(call: ApiRequest) -> tuple[Any, ...]:
    body = call.body("pattern", "definition")
    apply_to, priority = body.get("apply-to", "all"), body.get("priority", 0)
    return call.vhost, call.name, body["pattern"], apply_to, body["definition"], priority


def list_policies(call: ApiRequest) -> ListReply:
    return _listed(call, call.state.policies)


def show_policy(call: ApiRequest) -> dict[str, Any]:
    return _one(call, call.state.policies)


def put_policy(call: ApiRequest) -> EmptyReply:
    existed = (call.vhost, call.name) in call.state.policies
    try:
        policy = checked_policy(*_fields(call))
    except ControlError as error:
        raise bad_request(html_escaped(error.text)) from None
    call.write(commands.PutPolicy(policy))
    return EmptyReply() if existed else EmptyReply(CREATED)


def delete_policy(call: ApiRequest) -> EmptyReply:
    show_policy(call)
    call.write(commands.DeletePolicy(call.vhost, call.name))
    return EmptyReply()


def list_operator_policies(call: ApiRequest) -> ListReply:
    return _listed(call, call.state.operator_policies)


def show_operator_policy(call: ApiRequest) -> dict[str, Any]:
    return _one(call, call.state.operator_policies)


def put_operator_policy(call: ApiRequest) -> EmptyReply:
    existed = (call.vhost, call.name) in call.state.operator_policies
    call.write(commands.PutOperatorPolicy(checked_operator_policy(*_fields(call))))
    return EmptyReply() if existed else EmptyReply(CREATED)


def delete_operator_policy(call: ApiRequest) -> EmptyReply:
    show_operator_policy(call)
    call.write(commands.DeleteOperatorPolicy(call.vhost, call.name))
    return EmptyReply()


_POLICY = {"GET": show_policy, "PUT": put_policy, "DELETE": delete_policy}
_OPERATOR = {"GET": show_operator_policy, "PUT": put_operator_policy, "DELETE": delete_operator_policy}

ROUTES = [
    ApiRoute("policies", access.vhost, {"GET": list_policies}),
    ApiRoute("policies/{vhost}", access.vhost, {"GET": list_policies}),
    ApiRoute("policies/{vhost}/{name}", access.policymaker, _POLICY),
    ApiRoute("operator-policies", access.vhost, {"GET": list_operator_policies}),
    ApiRoute("operator-policies/{vhost}", access.vhost, {"GET": list_operator_policies}),
    ApiRoute("operator-policies/{vhost}/{name}", access.operator_policy, _OPERATOR, media=(JSON,)),
]
