"""Memory alarms: publishers are blocked and told; consumers go on."""

from __future__ import annotations

from tests.differential.context import Context
from tests.differential.runner import script
from tests.differential.transcript import CAPABILITIES


@script(alone=True)
def alarm_blocks_publishers(c: Context) -> None:
    """Blocked at the first publish, unblocked when the alarm clears, and the publish is then taken."""
    pub, sub = c.channel(), c.channel(c.connect())
    pub.queue("q")
    pub.publish("", "q", "before")
    pub.wait_for_hidden_confirms()
    c.admin.set_vm_memory_high_watermark("0.00001")
    try:
        pub.publish("", "q", "during")
        pub.connection.zero.read()
        sub.get("q", no_ack=True)
        sub.get("q", no_ack=True)
    finally:
        c.admin.set_vm_memory_high_watermark("0.4")
    pub.connection.zero.read()
    c.until_count("q", 1)
    sub.get("q", no_ack=True)


@script(alone=True)
def alarm_not_told_without_capability(c: Context) -> None:
    """A client that cannot take connection.blocked is held back all the same."""
    capabilities = {key: value for key, value in CAPABILITIES.items() if key != "connection.blocked"}
    pub = c.channel(c.connect(capabilities=capabilities))
    sub = c.channel(c.connect())
    sub.queue("q")
    c.admin.set_vm_memory_high_watermark("0.00001")
    try:
        pub.publish("", "q", "during")
        sub.get("q", no_ack=True)
    finally:
        c.admin.set_vm_memory_high_watermark("0.4")
    c.until_count("q", 1)
    pub.passive("q")


@script(alone=True)
def alarm_does_not_block_consumers(c: Context) -> None:
    """A connection that does not publish is neither blocked nor told."""
    ch = c.channel()
    c.admin.set_vm_memory_high_watermark("0.00001")
    try:
        ch.queue("q")
        ch.consume("q", "t")
        ch.cancel("t")
    finally:
        c.admin.set_vm_memory_high_watermark("0.4")
    ch.delete("q")
