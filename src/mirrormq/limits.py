"""Internal limits of the broker, each with the reason for its value.

`config.settings` holds the limits that an operator may set. The values here are sizes of our own buffers,
caches and batches. They are in one file to show in one place how much memory each can cost.

Compiled code contains the values that are Final, and looks up all others: those are changed by tests.
"""

from __future__ import annotations

from typing import Final

CONTROL_REQUEST_BYTES_MAX = 64 * 1024 * 1024
"""Largest control request. The largest real one is `import_definitions`: RabbitMQ accepts 10 MB over HTTP,
and a definitions file of 100,000 queues is about 25 MB."""

CONTROL_READ_TIMEOUT_S = 30.0
"""Time for a control client to send its request: well above the slowest disk read of a definitions file on
the same machine."""

CONTROL_CLOSE_TIMEOUT_S = 2.0
"""Time that a stopping node waits for control replies in flight: many times the delay of a local socket, and
short compared with the rest of a stop."""

SOCKET_PATH_BYTES_MAX = 107
"""Longest path of a Unix socket on Linux: `sun_path` has 108 bytes, one of them a NUL."""

MESSAGE_OVERHEAD_BYTES: Final = 400
"""Memory of a message beside its body: measured 192 bytes (object, frame headers, slot in the deque), plus
160 while it is unacked, rounded up."""

CHANNEL_PLACES_MAX: Final = 1_000
"""Exchanges, queues, and pairs of both that a channel counts separately: some 100 bytes each. Clients use a
handful on one channel. Above the limit the channel drops the oldest."""

VHOST_ROUTES_MAX = 20_000
"""Pairs of an exchange and a queue for which a vhost keeps the counters of closed channels: two megabytes."""

CONFIRM_CHANGES_MAX = 10_000
"""Changes of the exchange among unconfirmed publishes; above it the oldest are counted without an exchange.
"""

HOT_BUDGET_WATERMARK_SHARE = 0.5
"""Share of the memory watermark that message contents may use: RabbitMQ's paging ratio."""

DEAD_LETTER_HEADER_BYTES = 1024
DEAD_LETTERS_HEADER_BYTES_MAX = 64 * 1024
"""Large headers of the dead letters that a vhost publishes in one turn. Headers up to
`DEAD_LETTER_HEADER_BYTES` do not count. The broker decodes and encodes the headers of a dead letter again:
120 KiB of them took 45 ms."""

DELIVERY_BATCH: Final = 1024
"""Messages that a consumer without a prefetch limit receives at once."""

PUBLISH_TARGETS_CACHED: Final = 1024
"""Distinct basic.publish payloads whose routes a channel caches."""

TURN_EFFORT = 4096
METADATA_WRITE_EFFORT: Final = 128
HEADER_BYTES_PER_EFFORT: Final = 64
"""Work of one client in one turn of the loop before other clients are served: 4096 ordinary methods (20 to 40
ms at 5 to 10 µs each), or 32 that change metadata (a durable declaration waits for the disk, about a
millisecond). Reading headers costs some 20 ns a byte: 64 bytes of them count as one more method."""

REPLY_BYTES_MAX: Final = 1024 * 1024
"""Replies, returns and confirms that may wait for a client before its requests wait too. It equals the limit
for waiting deliveries: no client has to read deliveries in order to publish."""

DIRECT_REPLY_BYTES_MAX = 16 * 1024 * 1024
"""Output that may wait for a client before the broker drops direct replies to it. No publisher can be
throttled for its sake, and the replies are lost anyway if the client disconnects. Sixteen times the limit for
other output lets an ordinary burst of replies through."""

LOGIN_PIPELINED_BYTES_MAX = 64 * 1024
"""Input that the broker reads from a client while its password is checked. Clients send nothing at that
point, or a few hundred bytes of declarations."""

POSTPONED_BYTES_MAX: Final = 1024 * 1024
"""Frames of a connection that the broker defers for channels that wait for a reply, before it stops reading.
Enough work for a second channel, and no more than the buffers of a socket hold anyway."""

TRANSACTION_BYTES_MAX = 512 * 1024 * 1024
"""Messages that one transaction may hold before its commit, with their overhead: four of the largest allowed,
or a million of a hundred bytes. The memory alarm does not bound it: a publisher that is blocked in the middle
of a transaction cannot commit and free its memory."""

SENT_AGAIN_RANGES_MAX = 256
"""Spans of messages resent to a new master that a queue remembers as possibly delivered. Each node resends
its unconfirmed publishes in few spans. Past the limit the queue joins the two oldest ones."""

PRODUCERS_MAX = 1024
"""Node incarnations whose publish numbers a queue remembers. Ended incarnations are dropped: the value bounds
the number of nodes in the cluster, and a thousand is more than any cluster has."""

PRODUCERS_REMEMBERED_MAX = 16 * 1024
PRODUCER_IDLE_MS = 7 * 86_400_000
"""Producer names that a queue remembers for deduplication, and the idle time after which it drops one. A job
has one name per task, about 300 bytes each. A week is longer than any retry."""

PRODUCER_NAME_BYTES_MAX = 255
"""Longest producer name; AMQP limits every name to this length."""

FILE_HANDLES_RESERVED = 128
"""File handles reserved for journal segments, logs, listeners and control connections. The journal has at
most a few dozen files open at a time."""

CLOSE_FLUSH_TIMEOUT_S = 5.0
"""Time for the last bytes of a closed connection to leave. RabbitMQ does not wait at all (it sets SO_LINGER
to zero); a client on a slow network should still receive the reason for the close."""

SOCKET_OUTPUT_BYTES_MAX: Final = 1024 * 1024
"""Output that may wait for a slow client before its deliveries stop: a few round trips of a fast network, and
2 GB for 2,000 clients that all stop reading at once."""

HOUSEKEEPING_INTERVAL_S = 0.25
HOUSEKEEPING_BUSY_INTERVAL_S = 0.02
HOUSEKEEPING_BYTES = 256 * 1024
"""Interval of journal compaction, interval while there is work, and bytes per read: at most 13 MB/s. With
messages of 100 bytes of which one in five is left, 4 MiB blocked the loop for 85 ms; 256 KiB block it for
about 9 ms."""

USAGE_INTERVAL_S = 0.25
"""Delay until other nodes learn that a connection or channel that counted towards a limit has closed."""

CONGESTED_MESSAGES: Final = 1024
CONGESTED_BYTES: Final = 2 * 1024 * 1024
PUBLISHER_CREDIT: Final = 256
BYTES_PER_CREDIT: Final = 2 * 1024
PUBLISHER_REST_S = 0.002
"""Backpressure. A queue with consumers and more than `CONGESTED_MESSAGES` ready pauses a publisher that has
used its credit, until the queue is shorter, at most `PUBLISHER_REST_S`. Without it a publisher with a large
confirm window outruns a consumer with a smaller prefetch two to one, and the surplus is paged to disk and
back. With it a publisher of slow consumers still has 100,000 messages a second. A short backlog of large
messages stays in the cache of the processor: 64 KiB bodies passed at 14,500 a second with 2 MiB, 14,000 with
8 MiB, 4,700 with 32 MiB."""

COLLECTOR_THRESHOLD = 200_000
"""Container objects between two runs of the cyclic garbage collector. A full run blocks the loop for 225 ms
with a million unacked deliveries (measured). Messages hold no cycles, hence runs may be rare. Throughput
equals that of Python's default, 700."""

COMMIT_POSTPONEMENTS: Final = 8
"""Number of socket polls by which a group commit is postponed while the sockets have input. A poll costs some
microseconds, an fsync 200 to 2,000. With a publisher that sends slices of 100 messages, five fsyncs become
one: 234,000 persistent messages a second instead of 130,000."""

METADATA_WAIT_TIMEOUT_S = 30.0
"""Time that a command or an HTTP request waits for the cluster to commit its metadata change: longer than any
election, shorter than an operator's patience. Without a majority it fails."""

UNJOINED_BYTES_MIN: Final = 16 * 1024
"""Size from which chunks of output are not joined: joining costs more than a longer list of buffers."""
