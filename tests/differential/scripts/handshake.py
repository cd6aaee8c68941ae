"""From the protocol header to connection.open-ok, and everything that can go wrong on the way."""

from __future__ import annotations

from tests.differential import codec
from tests.differential.context import Context
from tests.differential.runner import script
from tests.differential.steps import authenticated, greet, start_ok, tune_ok


@script
def handshake_whole(c: Context) -> None:
    """Every method of an ordinary handshake, server properties included."""
    a = c.raw()
    a.send_raw(codec.PROTOCOL_HEADER, "protocol header")
    a.zero.read()
    start_ok(a)
    tune_ok(a)
    a.zero.call("connection.open", virtual_host=c.vhost)
    a.channel(1).call("channel.open")
    a.channel(1).call("channel.close", reply_code=200, reply_text="done")
    a.zero.call("connection.close", reply_code=200, reply_text="Goodbye")


WRONG_HEADERS = {
    "http": b"GET / HTTP/1.1\r\n\r\n",
    "amqp_0_10": b"AMQP\x01\x01\x00\x0a",
    "amqp_1_0_sasl": b"AMQP\x03\x01\x00\x00",
    "amqp_0_9_2": b"AMQP\x00\x00\x09\x02",
    "amqp_letters": b"AMQPAMQP",
}
for _name, _header in WRONG_HEADERS.items():

    @script(name=f"handshake_header_{_name}")
    def _header_script(c: Context, header: bytes = _header) -> None:
        """A header that is not AMQP 0-9-1 is answered with ours."""
        a = c.raw()
        a.send_raw(header)
        a.read_to_end()


@script
def handshake_header_0_9(c: Context) -> None:
    """The header of AMQP 0-9 starts a handshake too."""
    a = c.raw()
    a.send_raw(b"AMQP\x01\x01\x00\x09")
    a.zero.read()


@script
def handshake_unknown_mechanism(c: Context) -> None:
    start_ok(greet(c), mechanism="CRAM-MD5")


@script
def handshake_external_without_tls(c: Context) -> None:
    start_ok(greet(c), mechanism="EXTERNAL")


@script
def handshake_bad_password_told(c: Context) -> None:
    """A client that can authentication_failure_close is told."""
    start_ok(greet(c), response="\0guest\0wrong")


@script
def handshake_bad_password_silent(c: Context) -> None:
    """One that cannot sees the socket close."""
    a = greet(c)
    start_ok(a, response="\0guest\0wrong", capabilities={})


@script
def handshake_unknown_user(c: Context) -> None:
    start_ok(greet(c), response="\0nobody\0guest")


@script
def handshake_empty_user(c: Context) -> None:
    start_ok(greet(c), response="\0\0guest")


@script
def handshake_empty_password(c: Context) -> None:
    start_ok(greet(c), response="\0guest\0")


@script
def handshake_plain_malformed(c: Context) -> None:
    """A PLAIN response without its zero octets."""
    start_ok(greet(c), response="guest guest")


@script
def handshake_plain_with_authzid(c: Context) -> None:
    """An authorisation identity before the user name is ignored."""
    start_ok(greet(c), response="someone\0guest\0guest")


@script
def handshake_plain_too_many_parts(c: Context) -> None:
    start_ok(greet(c), response="\0guest\0guest\0guest")


@script
def handshake_amqplain(c: Context) -> None:
    response = codec.table({"LOGIN": "guest", "PASSWORD": "guest"})[4:]
    a = greet(c)
    start_ok(a, mechanism="AMQPLAIN", response=response)
    tune_ok(a)
    a.zero.call("connection.open", virtual_host=c.vhost)


@script
def handshake_amqplain_without_password(c: Context) -> None:
    start_ok(greet(c), mechanism="AMQPLAIN", response=codec.table({"LOGIN": "guest"})[4:])


@script
def handshake_amqplain_wrong_password(c: Context) -> None:
    start_ok(greet(c), mechanism="AMQPLAIN", response=codec.table({"LOGIN": "guest", "PASSWORD": "no"})[4:])


@script
def handshake_other_locale(c: Context) -> None:
    start_ok(greet(c), locale="zh_CN")


@script
def handshake_no_client_properties(c: Context) -> None:
    a = greet(c)
    a.zero.send("connection.start-ok", mechanism="PLAIN", response="\0guest\0guest", locale="en_US")
    a.zero.read()


@script
def handshake_capabilities_not_a_table(c: Context) -> None:
    """Capabilities of a wrong type count as none."""
    a = greet(c)
    a.zero.send(
        "connection.start-ok",
        client_properties={"capabilities": "all"},
        mechanism="PLAIN",
        response="\0guest\0wrong",
        locale="en_US",
    )
    a.read_to_end()


@script
def tune_channel_max_too_high(c: Context) -> None:
    a = authenticated(c)
    tune_ok(a, channel_max=2048)
    a.zero.read()


@script
def tune_channel_max_zero(c: Context) -> None:
    """Zero means no limit, which is above ours."""
    a = authenticated(c)
    tune_ok(a, channel_max=0)
    a.zero.call("connection.open", virtual_host=c.vhost)


@script
def tune_frame_max_too_high(c: Context) -> None:
    a = authenticated(c)
    tune_ok(a, frame_max=131073)
    a.zero.read()


@script
def tune_frame_max_zero(c: Context) -> None:
    a = authenticated(c)
    tune_ok(a, frame_max=0)
    a.zero.call("connection.open", virtual_host=c.vhost)


@script
def tune_frame_max_too_low(c: Context) -> None:
    a = authenticated(c)
    tune_ok(a, frame_max=4095)
    a.zero.read()


@script
def tune_frame_max_lowest(c: Context) -> None:
    """Four kibibytes are allowed, and deliveries are cut to it."""
    a = c.connect(frame_max=4096)
    ch = c.channel(a)
    ch.queue("q")
    ch.call("basic.get", queue="q")
    b = c.channel(c.connect())
    b.publish("", "q", b"x" * 9000)
    c.settle("q", on=[b])
    ch.get("q")


@script
def tune_heartbeat_zero(c: Context) -> None:
    a = authenticated(c)
    tune_ok(a, heartbeat=0)
    a.zero.call("connection.open", virtual_host=c.vhost)


@script
def heartbeat_sent_by_broker(c: Context) -> None:
    """With an interval of one second both sides send; a client that keeps silent is dropped."""
    a = authenticated(c)
    tune_ok(a, heartbeat=1)
    a.zero.call("connection.open", virtual_host=c.vhost)
    c.until("heartbeats come", lambda: a.pump(0) or a.heartbeats > 0)
    a.read_to_end()


@script
def open_missing_vhost(c: Context) -> None:
    a = authenticated(c)
    tune_ok(a)
    a.zero.call("connection.open", virtual_host="no such vhost")


@script
def open_empty_vhost(c: Context) -> None:
    a = authenticated(c)
    tune_ok(a)
    a.zero.call("connection.open", virtual_host="")


@script
def open_vhost_without_access(c: Context) -> None:
    c.admin.add_user("outsider", "secret")
    a = greet(c)
    start_ok(a, response="\0outsider\0secret")
    tune_ok(a)
    a.zero.call("connection.open", virtual_host=c.vhost)


@script
def open_twice(c: Context) -> None:
    c.connection.zero.call("connection.open", virtual_host=c.vhost)


@script
def open_before_tune_ok(c: Context) -> None:
    a = authenticated(c)
    a.zero.call("connection.open", virtual_host=c.vhost)


@script
def start_ok_again_after_open(c: Context) -> None:
    start_ok(c.connection)


@script
def start_ok_skipped(c: Context) -> None:
    """tune-ok before start-ok."""
    a = greet(c)
    tune_ok(a)
    a.read_to_end()


@script
def channel_open_before_connection_open(c: Context) -> None:
    a = authenticated(c)
    tune_ok(a)
    a.channel(1).send("channel.open")
    a.read_to_end()


@script
def declare_before_start_ok(c: Context) -> None:
    a = greet(c)
    a.channel(1).send("queue.declare", queue="q")
    a.read_to_end()


@script
def close_before_open(c: Context) -> None:
    """A client may change its mind after tune."""
    a = authenticated(c)
    tune_ok(a)
    a.zero.call("connection.close", reply_code=200)


@script
def close_before_tune_ok(c: Context) -> None:
    a = authenticated(c)
    a.zero.call("connection.close", reply_code=200)


@script
def close_with_open_channels(c: Context) -> None:
    c.channel().queue("q", exclusive=True)
    c.connection.zero.call("connection.close", reply_code=320, reply_text="tired")
    c.until_gone("q")


@script
def close_ok_unasked(c: Context) -> None:
    c.connection.zero.send("connection.close-ok")
    c.connection.zero.read()


@script
def frames_after_connection_close(c: Context) -> None:
    """Frames behind a client's connection.close are ignored."""
    c.channel()
    c.connection.send_raw(
        codec.frame(codec.METHOD, 0, codec.encode_method("connection.close", {"reply-code": 200}))
        + codec.frame(codec.METHOD, 1, codec.encode_method("queue.declare", {"queue": "late"})),
        "connection.close and queue.declare",
    )
    c.connection.zero.read()
    c.channel(c.connect()).passive("late")


@script
def server_methods_from_client(c: Context) -> None:
    """connection.tune comes from brokers only."""
    c.connection.zero.send("connection.tune", channel_max=1, frame_max=4096, heartbeat=1)
    c.connection.zero.read()


@script
def connection_start_from_client(c: Context) -> None:
    c.connection.zero.send("connection.start", version_major=0, version_minor=9)
    c.connection.zero.read()


@script
def connection_blocked_from_client(c: Context) -> None:
    c.connection.zero.send("connection.blocked", reason="just so")
    c.connection.zero.read()


@script
def secure_ok_unasked(c: Context) -> None:
    a = greet(c)
    a.zero.send("connection.secure-ok", response="x")
    a.read_to_end()


@script
def update_secret(c: Context) -> None:
    """A new password for the same user is taken."""
    c.admin.add_user("renewer", "first")
    c.admin.set_permissions("renewer", ".*", ".*", ".*")
    a = c.connect("renewer", "first")
    a.zero.call("connection.update-secret", new_secret="first", reason="renewal")


@script
def update_secret_wrong(c: Context) -> None:
    """The internal user database keeps nothing that could be renewed, so any secret will do."""
    c.connection.zero.call("connection.update-secret", new_secret="nonsense", reason="renewal")
    c.channel().queue("q")
