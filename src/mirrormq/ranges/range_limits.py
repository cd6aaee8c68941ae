"""The sizes of what range reads and leases may cost."""

from __future__ import annotations

READ_BYTES_MAX = 2 * 1024 * 1024
READ_ROWS_MAX = 16 * 1024
"""What one answer holds at most, unless it is a single message. To send so much takes the node's loop
a millisecond; a reader keeps several questions under way, so that larger answers would bring nothing."""

READ_BYTES_PASSED_ON_MAX = 1024 * 1024
"""The same for an answer that another node has to pass on: the stream between two nodes holds 16 MiB, and
publishes and deliveries travel by it too."""

SLICE_ROWS = 1536
SLICE_BYTES = 512 * 1024
"""What is read in one turn of the loop: one to two milliseconds of work."""

BUSY_ROWS_PER_MS = 60
BUSY_BYTES_PER_MS = 64 * 1024
BUSY_MS = 50
REST_MS = 10
"""What is read of all ranges together while clients have work for the node, and for how long after that: a
row costs about a microsecond, so this is a fifteenth of the loop's time. It is read every ten milliseconds,
because beginning a slice costs as much as some fifty rows."""

READS_IN_FLIGHT_MAX = 4
"""Reads of one connection that may be under way at once; whoever asks for more is refused. With
`READ_BYTES_MAX` that is half of the output that may wait for a client before direct replies to it are
dropped."""

LEASED_AT_ONCE_MAX = 16 * 1024
"""Messages that leave what is ready in one turn of the loop: some 10 ms if they are in memory only and have
to be written out, well below one if they are not."""

SPANS_PER_TAKE = 4096
"""A take of messages that lie scattered ends here: 64 KiB to agree on."""

LEASE_SPANS_MAX = 65536
"""A lease that holds as many scattered stretches takes no more before some are settled: 1 MiB of metadata."""

TAKES_PER_LEASE_MAX = 256
"""Takes that are not settled, of one lease. A streaming query has two."""

LEASES_PER_QUEUE_MAX = 64
"""Each is a consumer group of its own."""

LEASE_NAME_BYTES_MAX = 255
"""As for every other name."""

LEASE_OWNER_MS = 10_000
"""A lease belongs to the `owner` that used it last until the owner has been silent for so long. Clients renew
every three seconds."""

ENDED_LEASES_PER_QUEUE_MAX = 32
"""Leases that ended with messages unsettled and are remembered, to be told to their clients."""

TAKE_MESSAGES_MAX = 4_000_000
"""What one take gives at most: at 40 bytes a number and a microsecond each that is still small, and a client
that wants more asks again."""

IDLE_MS_DEFAULT = 7 * 86_400_000
"""A lease that nobody has used for a week is given up, unless it was taken with another limit: longer than a
weekend during which a job was down, shorter than a disk takes to fill."""

JOBS_PER_VHOST_MAX = 100
"""Jobs whose last word is kept; the one that has been silent for longest makes room. Weeks of nightly runs,
and with the sizes below 9 MiB of metadata at the very worst."""

JOB_NAME_BYTES_MAX = 255
"""As for every other name."""

JOB_TEXT_BYTES_MAX = 1024
"""One line for people to read."""

JOB_NUMBERS_MAX = 64
JOB_NUMBER_NAME_BYTES_MAX = 64
JOB_NUMBER_TEXT_BYTES_MAX = 255
"""More than a page shows without scrolling."""

JOB_TABLE_BYTES_MAX = 64 * 1024
JOB_TABLE_COLUMNS_MAX = 32
"""Some hundred rows; half of a frame, and a header has to fit into one."""

JOB_REPORT_INTERVAL_MS = 500
"""A job that runs and says more within this time is answered, but what it says is not kept: each word that
is kept is agreed on by the cluster. Senders keep to one a second."""

JOB_SILENT_MS = 120_000
"""A job that runs and has said nothing for so long is shown as silent: a long batch is not, a dead driver
is."""

PRODUCERS_PER_VHOST_MAX = 16 * 1024
"""Producers whose last batch is recorded; about 150 bytes each. A queue remembers as many names
(`limits.PRODUCERS_REMEMBERED_MAX`), so a batch of more partitions is not recognised as repeated."""

PRODUCER_EPOCHS_MAX = 64
"""Different contents of one batch that are recorded. A query that fails so often with changed rows gets a new
generation."""

BATCH_NAME_BYTES_MAX = 200
"""Name of a producer without its generation and epoch, which fill it up to 255 bytes."""

GENERATION_BYTES_MAX = 32
DIGEST_BYTES_MAX = 64
