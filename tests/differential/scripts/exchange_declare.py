"""Declaring, deleting and binding exchanges."""

from __future__ import annotations

from tests.differential.context import Context
from tests.differential.runner import script

PREDECLARED = (
    "amq.direct",
    "amq.fanout",
    "amq.topic",
    "amq.headers",
    "amq.match",
    "amq.rabbitmq.trace",
)


@script
def exchange_types(c: Context) -> None:
    """All the types there are."""
    ch = c.channel()
    for kind in ("direct", "fanout", "topic", "headers", "x-consistent-hash", "x-modulus-hash", "x-random"):
        ch.exchange(f"of {kind}", kind)
    ch.exchange("of x-recent-history", "x-recent-history")


@script
def exchange_unknown_type(c: Context) -> None:
    c.channel().exchange("e", "x-nonsense")


@script
def exchange_empty_type(c: Context) -> None:
    c.channel().exchange("e", "")


@script
def exchange_unknown_type_of_existing(c: Context) -> None:
    ch = c.channel()
    ch.exchange("e", "direct")
    ch.exchange("e", "x-nonsense")


@script
def exchange_reserved_prefix(c: Context) -> None:
    c.channel().exchange("amq.mine", "direct")


@script
def exchange_predeclared_again(c: Context) -> None:
    """The predeclared ones can be declared as they are."""
    ch = c.channel()
    for name in PREDECLARED:
        ch.call("exchange.declare", exchange=name, passive=True)
    ch.exchange("amq.direct", "direct", durable=True)
    ch.exchange("amq.direct", "direct")


@script
def exchange_default_declared(c: Context) -> None:
    c.channel().exchange("", "direct", durable=True)


@script
def exchange_default_passive(c: Context) -> None:
    c.channel().call("exchange.declare", exchange="", passive=True)


@script
def exchange_passive_missing(c: Context) -> None:
    c.channel().call("exchange.declare", exchange="e", passive=True)


@script
def exchange_passive_other_type(c: Context) -> None:
    """A passive declare only looks whether the name is there."""
    ch = c.channel()
    ch.exchange("e", "direct")
    ch.call("exchange.declare", exchange="e", type="fanout", passive=True)


@script
def exchange_passive_reserved(c: Context) -> None:
    c.channel().call("exchange.declare", exchange="amq.nothing", passive=True)


@script
def exchange_nowait(c: Context) -> None:
    ch = c.channel()
    ch.call("exchange.declare", exchange="e", type="fanout", nowait=True)
    ch.call("exchange.declare", exchange="e", passive=True)


@script
def exchange_nowait_error(c: Context) -> None:
    ch = c.channel()
    ch.call("exchange.declare", exchange="e", type="nonsense", nowait=True)
    ch.read()


@script
def exchange_newline_in_name(c: Context) -> None:
    """Carriage returns and line feeds are taken out of names."""
    ch = c.channel()
    ch.exchange("li\r\nne", "direct")
    ch.call("exchange.declare", exchange="line", passive=True)


@script
def exchange_longest_name(c: Context) -> None:
    c.channel().exchange("e" * 255, "direct")


@script
def exchange_name_not_utf8(c: Context) -> None:
    c.channel().call("exchange.declare", exchange=b"\xff\xfe", type="direct")


FLAGS: dict[str, dict[str, bool]] = {
    "durable": {"durable": True},
    "auto_delete": {"auto_delete": True},
    "internal": {"internal": True},
}
for _name, _flags in FLAGS.items():

    @script(name=f"exchange_redeclare_other_{_name}")
    def _redeclare(c: Context, flags: dict[str, bool] = _flags) -> None:
        ch = c.channel()
        ch.exchange("e", "direct")
        ch.exchange("e", "direct", None, **flags)


@script
def exchange_redeclare_less(c: Context) -> None:
    ch = c.channel()
    ch.exchange("e", "direct", durable=True)
    ch.exchange("e", "direct")


@script
def exchange_redeclare_other_type(c: Context) -> None:
    ch = c.channel()
    ch.exchange("e", "direct")
    ch.exchange("e", "topic")


@script
def exchange_redeclare_other_alternate(c: Context) -> None:
    ch = c.channel()
    ch.exchange("e", "direct", {"alternate-exchange": "one"})
    ch.exchange("e", "direct", {"alternate-exchange": "one"})
    ch.exchange("e", "direct", {"alternate-exchange": "two"})


@script
def exchange_redeclare_without_alternate(c: Context) -> None:
    ch = c.channel()
    ch.exchange("e", "direct", {"alternate-exchange": "one"})
    ch.exchange("e", "direct")


@script
def exchange_redeclare_other_argument(c: Context) -> None:
    """Arguments that mean nothing to the type are not compared."""
    ch = c.channel()
    ch.exchange("e", "direct", {"x-note": "one"})
    ch.exchange("e", "direct", {"x-note": "two"})


@script
def exchange_alternate_not_a_string(c: Context) -> None:
    c.channel().exchange("e", "direct", {"alternate-exchange": 5})


@script
def exchange_alternate_missing_exchange(c: Context) -> None:
    """The alternate exchange need not exist; messages are then returned."""
    ch = c.channel()
    ch.exchange("e", "direct", {"alternate-exchange": "nowhere"})
    ch.publish("e", "k", "lost", mandatory=True)
    c.settle()


@script
def exchange_delete_missing(c: Context) -> None:
    """Deleting what is not there is fine."""
    c.channel().call("exchange.delete", exchange="e")


@script
def exchange_delete_default(c: Context) -> None:
    c.channel().call("exchange.delete", exchange="")


@script
def exchange_delete_predeclared(c: Context) -> None:
    c.channel().call("exchange.delete", exchange="amq.topic")


@script
def exchange_delete_reserved_missing(c: Context) -> None:
    c.channel().call("exchange.delete", exchange="amq.nothing")


@script
def exchange_delete_if_unused(c: Context) -> None:
    ch = c.channel()
    ch.exchange("e", "direct")
    ch.queue("q")
    ch.bind("q", "e", "k")
    ch.call("exchange.delete", exchange="e", if_unused=True)


@script
def exchange_delete_if_unused_bound_to(c: Context) -> None:
    """Being the destination of a binding is no use of an exchange."""
    ch = c.channel()
    ch.exchange("e", "direct")
    ch.bind_exchange("e", "amq.direct", "k")
    ch.call("exchange.delete", exchange="e", if_unused=True)


@script
def exchange_delete_removes_bindings(c: Context) -> None:
    ch = c.channel()
    ch.exchange("e", "direct")
    ch.queue("q")
    ch.bind("q", "e", "k")
    ch.call("exchange.delete", exchange="e")
    ch.exchange("e", "direct")
    ch.publish("e", "k", "unbound", mandatory=True)
    c.settle("q")


@script
def exchange_delete_nowait(c: Context) -> None:
    ch = c.channel()
    ch.exchange("e", "direct")
    ch.call("exchange.delete", exchange="e", nowait=True)
    ch.call("exchange.declare", exchange="e", passive=True)


@script
def exchange_auto_delete_by_unbind(c: Context) -> None:
    ch = c.channel()
    ch.exchange("e", "direct", auto_delete=True)
    ch.queue("q")
    ch.bind("q", "e", "a")
    ch.bind("q", "e", "b")
    ch.unbind("q", "e", "a")
    ch.call("exchange.declare", exchange="e", passive=True)
    ch.unbind("q", "e", "b")
    ch.call("exchange.declare", exchange="e", passive=True)


@script
def exchange_auto_delete_by_queue_delete(c: Context) -> None:
    ch = c.channel()
    ch.exchange("e", "fanout", auto_delete=True)
    ch.queue("q")
    ch.bind("q", "e")
    ch.delete("q")
    ch.call("exchange.declare", exchange="e", passive=True)


@script
def exchange_auto_delete_chain(c: Context) -> None:
    """An auto-delete exchange that goes takes the one it was bound to along."""
    ch = c.channel()
    ch.exchange("upper", "fanout", auto_delete=True)
    ch.exchange("lower", "fanout", auto_delete=True)
    ch.bind_exchange("lower", "upper")
    ch.queue("q")
    ch.bind("q", "lower")
    ch.delete("q")
    c.channel().call("exchange.declare", exchange="lower", passive=True)
    c.channel().call("exchange.declare", exchange="upper", passive=True)


@script
def exchange_internal_publish(c: Context) -> None:
    ch = c.channel()
    ch.exchange("e", "fanout", internal=True)
    ch.publish("e", "k", "x")
    ch.read()


@script
def exchange_internal_routes(c: Context) -> None:
    ch = c.channel()
    ch.exchange("inside", "fanout", internal=True)
    ch.exchange("outside", "fanout")
    ch.bind_exchange("inside", "outside")
    ch.queue("q")
    ch.bind("q", "inside")
    ch.publish("outside", "k", "x")
    ch.get("q", no_ack=True)
