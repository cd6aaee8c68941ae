"""Limits of range reads, leases, job reports and producer batches."""

from __future__ import annotations

READ_BYTES_MAX = 2 * 1024 * 1024
READ_ROWS_MAX = 16 * 1024
"""Largest reply, unless it is a single message. Sending this much takes the node's loop a millisecond. A
reader keeps several requests in flight, hence larger replies gain nothing."""

READ_BYTES_PASSED_ON_MAX = 1024 * 1024
"""Largest reply that another node has to relay: the stream between two nodes holds 16 MiB, and it also
carries publishes and deliveries."""

SLICE_ROWS = 1536
SLICE_BYTES = 512 * 1024
"""Messages read in one turn of the loop: one to two milliseconds of work."""

BUSY_ROWS_PER_MS = 60
BUSY_BYTES_PER_MS = 64 * 1024
BUSY_MS = 50
REST_MS = 10
"""Rate of all range reads together while clients keep the node busy, and for `BUSY_MS` after. A row costs
about a microsecond: the rate is a fifteenth of the loop's time. The node reads every ten milliseconds,
because starting a slice costs as much as some fifty rows."""

READS_IN_FLIGHT_MAX = 4
"""Concurrent reads of one connection; the broker refuses further ones. With `READ_BYTES_MAX` that is half of
the output that may wait for a client before direct replies to it are dropped."""

LEASED_AT_ONCE_MAX = 16 * 1024
"""Messages that move from ready to leased in one turn of the loop: some 10 ms if they are in memory only and
have to be written out, well below 1 ms otherwise."""

SPANS_PER_TAKE = 4096
"""Spans after which a take of scattered messages ends: 64 KiB of metadata to commit."""

LEASE_SPANS_MAX = 65536
"""Spans above which a lease takes no more messages until some are settled: 1 MiB of metadata."""

TAKES_PER_LEASE_MAX = 256
"""Unsettled takes of one lease. A streaming query has two."""

LEASES_PER_QUEUE_MAX = 64
"""Leases of one queue; each is a separate consumer group."""

LEASE_NAME_BYTES_MAX = 255
"""Longest lease name; AMQP limits every name to this length."""

LEASE_OWNER_MS = 10_000
"""Idle time after which a lease no longer belongs to the `owner` that used it last. Clients renew every three
seconds."""

ENDED_LEASES_PER_QUEUE_MAX = 32
"""Leases that ended with unsettled messages and are remembered, to report that to their clients."""

TAKE_MESSAGES_MAX = 4_000_000
"""Largest take. At 40 bytes and a microsecond per number it is still small, and a client can take again."""

IDLE_MS_DEFAULT = 7 * 86_400_000
"""Idle time after which a lease expires, unless its client gave another. A week is longer than a weekend
during which a job is down, and shorter than a disk takes to fill."""

JOBS_PER_VHOST_MAX = 100
"""Jobs whose last report is kept; a new job replaces the one that has been silent for longest. Enough for
weeks of nightly runs; with the sizes below at most 9 MiB of metadata."""

JOB_NAME_BYTES_MAX = 255
"""Longest job name; AMQP limits every name to this length."""

JOB_TEXT_BYTES_MAX = 1024
"""Longest text of a report: one line on the management page."""

JOB_NUMBERS_MAX = 64
JOB_NUMBER_NAME_BYTES_MAX = 64
JOB_NUMBER_TEXT_BYTES_MAX = 255
"""Numbers of a report: more than a page shows without scrolling."""

JOB_TABLE_BYTES_MAX = 64 * 1024
JOB_TABLE_COLUMNS_MAX = 32
"""Table of a report: some hundred rows, half of a frame. A header has to fit into one frame."""

JOB_REPORT_INTERVAL_MS = 500
"""Shortest interval between two stored reports of a running job. An earlier report gets a reply and is not
stored, because each stored report is a metadata change. Clients send one a second."""

JOB_SILENT_MS = 120_000
"""Time without a report after which a running job is shown as silent: a long batch reports within it, a dead
driver does not."""

PRODUCERS_PER_VHOST_MAX = 16 * 1024
"""Producers whose last batch is recorded; about 150 bytes each. A queue remembers as many names
(`limits.PRODUCERS_REMEMBERED_MAX`), so a batch of more partitions is not recognised as repeated. Producers
that were idle for `limits.PRODUCER_IDLE_MS` make room for new ones; otherwise new ones are refused."""

PRODUCER_EPOCHS_MAX = 64
"""Distinct contents of one batch that are recorded; further ones are refused. A query that fails so often
with changed rows publishes most of them many times."""

BATCH_NAME_BYTES_MAX = 200
"""Longest name of a producer without its generation and epoch, which extend it to at most 255 bytes."""

GENERATION_BYTES_MAX = 32
DIGEST_BYTES_MAX = 64
