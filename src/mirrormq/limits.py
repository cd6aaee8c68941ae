"""The broker's internal limits, each with the reason for its number.

What an operator may set is in `config.settings`; these are the sizes of our own buffers, caches
and batches. They are here together so that "how much memory can this cost?" has one place to look.
"""

from __future__ import annotations

CONTROL_REQUEST_BYTES_MAX = 64 * 1024 * 1024
"""A control request's largest size. The largest real one is `import_definitions`; RabbitMQ takes
10 MB over HTTP, and a definitions file of 100,000 queues is about 25 MB."""

CONTROL_READ_TIMEOUT_S = 30.0
"""How long a control client may take to send its request: the longest pause we would accept from
a program on the same machine, well above the slowest disk read of a definitions file."""

CONTROL_CLOSE_TIMEOUT_S = 2.0
"""How long a stopping node waits for control replies that are on their way: many times what a
local socket takes, and short beside the rest of a stop."""

SOCKET_PATH_BYTES_MAX = 107
"""The longest path of a Unix socket on Linux: `sun_path` has 108 bytes, one of them a NUL."""

HEAD_STORED_MESSAGES = 16 * 1024
HEAD_STORED_BYTES = 16 * 1024 * 1024
"""How much of a queue stays in memory when the journal has it anyway. Reading back is cheap (one
large read per page), so this only has to cover the jitter between publishers and consumers."""

HEAD_MESSAGES = 256 * 1024
HEAD_BYTES = 128 * 1024 * 1024
"""The same for messages that would have to be written first. Memory is cheaper than a write that
may never be needed, so it is larger; the node-wide budget bounds the sum over all queues."""

MIRROR_MEMORY_MESSAGES = 16 * 1024
MIRROR_MEMORY_BYTES = 16 * 1024 * 1024
"""What a mirror keeps in memory of messages that need not be on disk, before it writes them there all the
same. Nobody reads them unless the mirror is promoted, and then they are written out first, which
takes some 30 ms for as many as this."""

LAZY_HEAD_MESSAGES = 256
"""What a lazy queue, or any queue while the node is over its budget, keeps in memory."""

UNACKED_HOT_MESSAGES = 16 * 1024
"""When more messages of a queue than this are out with consumers, their contents are not kept in
memory if the journal has them. Prefetch limits are far below it, so it costs only those consumers
anything that take a whole backlog at once: they hold 350 bytes a message instead of 600."""

MESSAGE_OVERHEAD_BYTES = 400
"""What a message in memory costs beside its body: measured 192 bytes (object, frames' heads, place in
the deque) and 160 more while it is out with a consumer, rounded up."""

CHANNEL_PLACES_MAX = 1_000
"""Exchanges, queues, and pairs of both, for which a channel counts apart: some 100 bytes each. Clients use
a handful on one channel; the oldest goes for one beyond."""

VHOST_ROUTES_MAX = 20_000
"""Pairs of an exchange and a queue for which a vhost keeps what closed channels had counted: two
megabytes."""

CONFIRM_CHANGES_MAX = 10_000
"""How often the exchange may change among publishes that wait for their confirm, before the oldest are
counted without one."""

HOT_BUDGET_WATERMARK_SHARE = 0.5
"""Share of the memory watermark that message contents may take: RabbitMQ's paging ratio."""

PAGE_MESSAGES = 4096
PAGE_IN_BYTES = 4 * 1024 * 1024
"""How much is read back at once: enough that a drain is bound by delivering, not by reading, and
small beside the memory of a node."""

DELIVERIES_PER_PUMP = 2048
"""How many messages one queue hands out before the others have their turn."""

EXPIRED_PER_LOOK = 2048
"""How many expired messages one queue drops before the others have their turn."""

DEAD_LETTER_HEADER_BYTES = 1024
DEAD_LETTERS_HEADER_BYTES_MAX = 64 * 1024
"""Large headers of the dead letters that a vhost publishes in one turn. Headers up to the first number do not
count. A dead letter's headers are decoded and encoded again: 120 KiB of them took 45 ms."""

DEAD_LETTERS_UNDER_WAY_MAX = 16 * 1024
"""Dead letters that a queue keeps until they are safe where they go to. When there are more, because a queue
of another node takes no more or is down, messages that have expired stay where they are for now; those that
are surplus (`max-length`) or rejected are dropped without becoming dead letters."""

DELIVERY_BATCH = 1024
"""How many messages a consumer without a prefetch limit takes at once."""

PUBLISH_TARGETS_CACHED = 1024
"""How many different basic.publish payloads a channel remembers with their routes."""

TURN_EFFORT = 4096
METADATA_WRITE_EFFORT = 128
HEADER_BYTES_PER_EFFORT = 64
"""How much one client gets done in one turn of the loop before the others are served: 4096 ordinary
methods (20 to 40 ms at 5 to 10 µs each), or 32 that change metadata (a durable declaration waits
for the disk, about a millisecond). Reading headers costs some 20 ns a byte, so 64 bytes of them
count as much as a method does besides."""

REPLY_BYTES_MAX = 1024 * 1024
"""Replies (and returns, and confirms) that may wait for a client before its requests wait too. It
is as much again as the deliveries that may wait, so that no client has to read deliveries in order to
publish."""

DIRECT_REPLY_BYTES_MAX = 16 * 1024 * 1024
"""Output that may wait for a client before direct replies to it are dropped: nobody can be slowed
for its sake, and what it asked for would be lost as well if it went away. Sixteen times what stops
everything else, so that an ordinary burst of answers gets through."""

LOGIN_PIPELINED_BYTES_MAX = 64 * 1024
"""Input that is read from a client while its password is checked. Clients send nothing then, or a few hundred
bytes of declarations."""

POSTPONED_BYTES_MAX = 1024 * 1024
"""Frames of a connection that may be put aside for channels that wait for an answer, before nothing more is
read from it: enough for a second channel's worth of work, and no more than a socket's buffers hold anyway."""

TRANSACTION_BYTES_MAX = 512 * 1024 * 1024
"""Messages that one transaction may hold before its commit, with their overhead: four of the largest
allowed, or a million of a hundred bytes. The memory alarm does not bound it, because a publisher
that is blocked in the middle of a transaction cannot commit and set its memory free."""

SENT_AGAIN_RANGES_MAX = 256
"""Stretches of messages, sent again to a new master, of which a queue remembers that they may have been
delivered. Each node sends what was under way in few of them; the oldest is forgotten first."""

PRODUCERS_MAX = 1024
"""Nodes (each life of one counts) whose publish numbers a queue remembers. Lives that have ended are
forgotten, so it is the number of nodes in the cluster; a thousand is more than any has."""

PRODUCERS_REMEMBERED_MAX = 16 * 1024
PRODUCER_IDLE_MS = 7 * 86_400_000
"""Names of publishers that number their messages, and how long a queue remembers one that is
silent. A job has one name for each of its tasks, about 300 bytes each; a week is longer than any retry."""

PRODUCER_NAME_BYTES_MAX = 255
"""As for every other name."""

FILE_HANDLES_RESERVED = 128
"""Handles that clients may not take: journal segments, logs, listeners, control connections. The
journal has at most a few dozen files open at a time."""

CLOSE_FLUSH_TIMEOUT_S = 5.0
"""How long the last bytes of a closed connection may take to leave. RabbitMQ does not wait at all
(it sets SO_LINGER to zero); a client on a slow network should still learn why it was closed."""

SOCKET_OUTPUT_BYTES_MAX = 1024 * 1024
"""Output that may wait for a slow client before its deliveries stop: a few round trips of a fast
network, and 2 GB for 2,000 clients that all stop reading at once."""

DELIVERY_BATCH_BYTES = 2 * 1024 * 1024
"""Bodies that one consumer is given at once, whatever its prefetch: keeps one turn of the loop and
one socket's buffer short with large messages."""

HOUSEKEEPING_INTERVAL_S = 0.25
HOUSEKEEPING_BUSY_INTERVAL_S = 0.02
HOUSEKEEPING_BYTES = 256 * 1024
"""How often the journal looks whether there is something to tidy up, how soon it goes on if there was, and
how much it reads at once: at most 13 MB/s. With messages of 100 bytes of which one in five is left, 4 MiB
held the loop for 85 ms, and this holds it for about 9."""

USAGE_INTERVAL_S = 0.25
"""How soon other nodes hear that a connection or channel that counted towards a limit is gone."""

CONGESTED_MESSAGES = 1024
CONGESTED_BYTES = 2 * 1024 * 1024
PUBLISHER_CREDIT = 256
BYTES_PER_CREDIT = 2 * 1024
PUBLISHER_REST_S = 0.002
"""When a queue has consumers and more than this ready, a publisher that has added its credit to it is
not read from until the queue is shorter, at most this long. Without it a publisher with a large
confirm window outruns a consumer with a smaller prefetch two to one, and the surplus is paged to
disk and back; with it a publisher of slow consumers still has 100,000 messages a second. Of large
messages a short backlog stays in the processor's cache: 64 KiB bodies passed at 14,500 a second with
2 MiB, 14,000 with 8 MiB, 4,700 with 32 MiB."""

COLLECTOR_THRESHOLD = 200_000
"""Container objects between two looks for cycles. A look at everything stops the loop for 225 ms when a
million deliveries are out (measured); messages hold no cycles, so it may be rare. Throughput is the
same with Python's 700."""

COMMIT_POSTPONEMENTS = 8
"""How often a group commit waits for one more look at the sockets while they have input. A look costs
some microseconds, an fsync 200 to 2,000: with a publisher that sends in slices of 100 messages this
makes one fsync of five: 234,000 persistent messages a second instead of 130,000."""

METADATA_WAIT_TIMEOUT_S = 30.0
"""How long a command or an HTTP request waits for the cluster to agree on what it wrote: longer than any
election, shorter than the patience of those who type. Without a majority nothing comes of it."""

UNJOINED_BYTES_MIN = 16 * 1024
"""From this size on, pieces of output go to the socket as they are: joining them costs more than
the longer list of buffers."""
