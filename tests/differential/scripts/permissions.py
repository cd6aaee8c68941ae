"""Permissions to configure, write and read; topic permissions; limits of vhosts and users."""

from __future__ import annotations

from tests.differential.client import Connection
from tests.differential.context import Context
from tests.differential.runner import script


def login(c: Context, name: str, configure: str, write: str, read: str) -> Connection:
    """A new user with these permissions, connected. Users are the broker's, so every script has its own."""
    c.admin.add_user(name, "secret")
    c.admin.set_permissions(name, configure, write, read)
    return c.connect(name, "secret")


@script
def permission_configure_refused(c: Context) -> None:
    a = login(c, "no_configure", "^mine-", ".*", ".*")
    c.channel(a, plain=True).queue("mine-q")
    c.channel(a, plain=True).queue("q")
    c.channel(a, plain=True).exchange("e", "direct")
    c.channel(a, plain=True).delete("mine-q")
    c.channel(a, plain=True).delete("q")
    c.channel(a, plain=True).call("exchange.delete", exchange="amq.direct")
    c.channel(a, plain=True).call("exchange.delete", exchange="e")


@script
def permission_configure_existing(c: Context) -> None:
    """Permissions come before equivalence; a passive declare needs none."""
    c.channel().queue("q")
    a = login(c, "no_configure_existing", "^$", ".*", ".*")
    c.channel(a, plain=True).passive("q")
    c.channel(a, plain=True).queue("q")
    c.channel(a, plain=True).call("exchange.declare", exchange="amq.direct", passive=True)
    c.channel(a, plain=True).exchange("amq.direct", "direct", durable=True)


@script
def permission_server_named(c: Context) -> None:
    """A generated name must be allowed like any other."""
    a = login(c, "no_generated", "^mine-", ".*", ".*")
    c.channel(a, plain=True).queue("", exclusive=True)


@script
def permission_write_refused(c: Context) -> None:
    c.channel().queue("q")
    a = login(c, "no_write", ".*", "^mine-", ".*")
    ch = c.channel(a, plain=True)
    ch.publish("amq.direct", "k", "x")
    ch.read()
    ch = c.channel(a, plain=True)
    ch.publish("", "q", "x")
    ch.read()
    c.channel(a, plain=True).bind("q", "amq.direct", "k")
    c.channel(a, plain=True).bind_exchange("amq.fanout", "amq.direct", "k")


@script
def permission_write_default_exchange(c: Context) -> None:
    """The default exchange is called amq.default when permissions are asked."""
    c.channel().queue("q")
    a = login(c, "default_writer", ".*", "^(amq\\.default)$", ".*")
    ch = c.channel(a)
    ch.publish("", "q", "x")
    c.settle(on=[ch])
    ch.publish("amq.direct", "k", "x")
    c.settle(on=[ch])


@script
def permission_read_refused(c: Context) -> None:
    c.channel().queue("q")
    a = login(c, "no_read", ".*", ".*", "^mine-")
    c.channel(a, plain=True).get("q")
    c.channel(a, plain=True).consume("q", "t")
    c.channel(a, plain=True).call("queue.purge", queue="q")
    c.channel(a, plain=True).bind("q", "amq.direct", "k")
    c.channel(a, plain=True).unbind("q", "amq.direct", "k")


@script
def permission_publish_missing_exchange(c: Context) -> None:
    """Permissions are looked at before existence."""
    a = login(c, "no_write_missing", "", "^mine-", "")
    ch = c.channel(a, plain=True)
    ch.publish("nowhere", "k", "x")
    ch.read()


@script
def permission_dead_letter_exchange(c: Context) -> None:
    """A dead letter exchange needs read on the queue and write on the exchange."""
    a = login(c, "no_dead_letters", ".*", "^mine-", ".*")
    c.channel(a, plain=True).queue("q", {"x-dead-letter-exchange": "amq.fanout"})
    b = login(c, "no_dead_reading", ".*", ".*", "^mine-")
    c.channel(b, plain=True).queue("q", {"x-dead-letter-exchange": "amq.fanout"})


@script
def permission_alternate_exchange(c: Context) -> None:
    a = login(c, "no_alternates", ".*", "^mine-", ".*")
    c.channel(a, plain=True).exchange("e", "direct", {"alternate-exchange": "amq.fanout"})
    b = login(c, "no_alternate_reading", ".*", ".*", "^mine-")
    c.channel(b, plain=True).exchange("e", "direct", {"alternate-exchange": "amq.fanout"})


@script
def permission_empty_patterns(c: Context) -> None:
    """An empty pattern matches only the empty name, which stands for nothing here."""
    a = login(c, "nothing_at_all", "", "", "")
    c.channel(a, plain=True).queue("q")
    c.channel(a, plain=True).passive("q")


@script
def permission_pattern_is_searched(c: Context) -> None:
    """A pattern without anchors matches anywhere in the name."""
    a = login(c, "searcher", "mid", ".*", ".*")
    c.channel(a, plain=True).queue("a mid b")
    c.channel(a, plain=True).queue("a m b")


@script
def permission_reply_to(c: Context) -> None:
    """Direct reply-to needs no permission."""
    a = login(c, "replier", "^$", "^$", "^$")
    c.channel(a, plain=True).consume("amq.rabbitmq.reply-to", "t", no_ack=True)


@script
def permission_passive_missing(c: Context) -> None:
    a = login(c, "passive_nobody", "^$", "^$", "^$")
    c.channel(a, plain=True).passive("missing")


@script
def topic_permission_publish(c: Context) -> None:
    a = login(c, "topic_writer", ".*", ".*", ".*")
    c.admin.set_topic_permissions("topic_writer", "amq.topic", "^a\\.", ".*")
    ch = c.channel(a)
    ch.publish("amq.topic", "a.b", "allowed")
    c.settle(on=[ch])
    ch.publish("amq.topic", "b.a", "refused")
    c.settle(on=[ch])


@script
def topic_permission_bind(c: Context) -> None:
    a = login(c, "topic_reader", ".*", ".*", ".*")
    c.admin.set_topic_permissions("topic_reader", "amq.topic", ".*", "^a\\.")
    ch = c.channel(a, plain=True)
    ch.queue("q")
    ch.bind("q", "amq.topic", "a.*")
    ch.bind("q", "amq.topic", "#")


@script
def topic_permission_other_exchange(c: Context) -> None:
    """Only topic exchanges ask, and only the one named."""
    a = login(c, "topic_other", ".*", ".*", ".*")
    c.admin.set_topic_permissions("topic_other", "special", "^$", "^$")
    ch = c.channel(a)
    ch.publish("amq.topic", "a.b", "x")
    ch.publish("amq.direct", "a.b", "x")
    c.settle(on=[ch])


@script
def topic_permission_variables(c: Context) -> None:
    """{username} and {vhost} stand for themselves."""
    a = login(c, "variable", ".*", ".*", ".*")
    c.admin.set_topic_permissions("variable", "amq.topic", "^{username}\\.{vhost}$", ".*")
    ch = c.channel(a)
    ch.publish("amq.topic", "variable.topic_permission_variables", "allowed")
    c.settle(on=[ch])
    ch.publish("amq.topic", "variable.other", "refused")
    c.settle(on=[ch])


@script
def limit_vhost_queues(c: Context) -> None:
    c.admin.set_vhost_limits({"max-queues": 2})
    ch = c.channel()
    ch.queue("q1")
    ch.queue("q2")
    ch.queue("q2")
    ch.queue("q3")


@script
def limit_vhost_queues_zero(c: Context) -> None:
    c.admin.set_vhost_limits({"max-queues": 0})
    c.channel().queue("", exclusive=True)


@script
def limit_vhost_queues_negative(c: Context) -> None:
    c.admin.set_vhost_limits({"max-queues": -1})
    c.channel().queue("q")


@script
def limit_vhost_connections(c: Context) -> None:
    first = c.connect()
    c.channel(first)
    c.admin.set_vhost_limits({"max-connections": 1})
    c.refused()


@script
def limit_vhost_connections_zero(c: Context) -> None:
    c.admin.set_vhost_limits({"max-connections": 0})
    c.refused()


@script
def limit_user_connections(c: Context) -> None:
    first = login(c, "one_connection", ".*", ".*", ".*")
    c.channel(first)
    c.admin.set_user_limits("one_connection", {"max-connections": 1})
    c.refused("one_connection", "secret")


@script
def limit_user_channels(c: Context) -> None:
    a = login(c, "two_channels", ".*", ".*", ".*")
    c.admin.set_user_limits("two_channels", {"max-channels": 2})
    for number in (1, 2):
        a.channel(number).call("channel.open")
    a.channel(3).call("channel.open")


@script
def user_deleted_keeps_connection(c: Context) -> None:
    """The connection of a deleted user stays open."""
    a = login(c, "doomed", ".*", ".*", ".*")
    c.channel(a).queue("q")
    c.admin.delete_user("doomed")
    a.zero.read()
