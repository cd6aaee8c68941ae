"""Exchange types by name, with the validation of each."""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.errors import CommandInvalid
from mirrormq.exchanges import consistent_hash, federation_upstream, headers, recent_history
from mirrormq.exchanges.consistent_hash import ConsistentHashExchange
from mirrormq.exchanges.direct import DirectExchange
from mirrormq.exchanges.exchange import Exchange
from mirrormq.exchanges.fanout import FanoutExchange
from mirrormq.exchanges.federation_upstream import FederationUpstreamExchange
from mirrormq.exchanges.headers import HeadersExchange
from mirrormq.exchanges.modulus_hash import ModulusHashExchange
from mirrormq.exchanges.random_exchange import Choose, RandomExchange
from mirrormq.exchanges.recent_history import RecentHistoryExchange
from mirrormq.exchanges.topic import TopicExchange
from mirrormq.wire.fields import Table

Maker = Callable[[str, Table, Choose], Exchange]

_MAKERS: dict[str, Maker] = {
    DirectExchange.kind: lambda name, arguments, choose: DirectExchange(name),
    FanoutExchange.kind: lambda name, arguments, choose: FanoutExchange(name),
    TopicExchange.kind: lambda name, arguments, choose: TopicExchange(name),
    HeadersExchange.kind: lambda name, arguments, choose: HeadersExchange(name),
    ConsistentHashExchange.kind: lambda name, arguments, choose: ConsistentHashExchange(name, arguments),
    ModulusHashExchange.kind: lambda name, arguments, choose: ModulusHashExchange(name),
    RandomExchange.kind: lambda name, arguments, choose: RandomExchange(name, choose),
    RecentHistoryExchange.kind: lambda name, arguments, choose: RecentHistoryExchange(name, arguments),
    FederationUpstreamExchange.kind: (
        lambda name, arguments, choose: FederationUpstreamExchange(name, arguments)
    ),
}

KINDS: tuple[str, ...] = tuple(_MAKERS)
"""All exchange types."""

INVALID_RATHER_THAN_UNKNOWN = frozenset(
    "/a/bad/classic/default/exchange/foo/header/invalid/message/no/none/normal/other/queue/quorum"  # noqa: SIM905
    "/random/stream/system/test/true/type/undefined/unknown/x".split("/")
)
"""Words that RabbitMQ reports as an "invalid" type, because its runtime knows them as atoms; other wrong
types are "unknown". The list holds the likely words that we found it to know."""


def validate_kind(kind: str) -> None:
    """Refuse an exchange type that does not exist; RabbitMQ checks this before anything else."""
    if kind not in _MAKERS:
        wrong = "invalid" if kind in INVALID_RATHER_THAN_UNKNOWN else "unknown"
        raise CommandInvalid(f"{wrong} exchange type '{kind}'")


def validate_arguments(kind: str, arguments: Table) -> None:
    """Refuse arguments that the type cannot work with."""
    if kind == ConsistentHashExchange.kind:
        consistent_hash.validate_arguments(arguments)
    elif kind == RecentHistoryExchange.kind:
        recent_history.validate_arguments(arguments)
    elif kind == FederationUpstreamExchange.kind:
        federation_upstream.validate_arguments(arguments)


def validate_binding(kind: str, routing_key: str, arguments: Table) -> None:
    """Refuse a binding that an exchange of this type cannot hold."""
    if kind == ConsistentHashExchange.kind:
        consistent_hash.validate_weight(routing_key)
    elif kind == HeadersExchange.kind:
        headers.validate_match(arguments)


def create(kind: str, name: str, arguments: Table, choose: Choose) -> Exchange:
    """Create an exchange without bindings; raise RabbitMQ's error for a wrong type or argument."""
    validate_kind(kind)
    validate_arguments(kind, arguments)
    return _MAKERS[kind](name, arguments, choose)
