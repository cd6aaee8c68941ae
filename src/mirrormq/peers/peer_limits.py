"""The sizes and times of links between nodes, each with the reason for its number."""

from __future__ import annotations

PROTOCOL_VERSION = 1
"""Grows when two nodes of different versions could misunderstand each other."""

NONCE_BYTES = 32
"""As many random bytes as a proof has: neither is the weaker part."""

HANDSHAKE_MESSAGE_BYTES_MAX = 1024
"""Two names and a cluster id of at most 255 bytes each, a nonce, and some room. All that a stranger can
make us keep."""

STATEMENT_BYTES_MAX = 400
"""A name and six numbers: a handshake message has room for it beside two names and a nonce."""

NAME_BYTES_MAX = 255
"""Of a node's name or a cluster's id: host names have at most 253."""

REFUSAL_BYTES_MAX = 120
"""One short sentence."""

HANDSHAKE_TIMEOUT_S = 5.0
"""Two round trips, beside a node whose loop may be blocked for a second and a half."""

PENDING_HANDSHAKES_MAX = 64
"""Accepted sockets that have not proved anything yet. The largest clusters have a few dozen nodes; past
this the oldest is dropped, so that a flood of strangers cannot keep a node out."""

REFUSALS_LOGGED_MAX = 20
REFUSALS_LOGGED_WINDOW_S = 10.0
"""Log lines that strangers can cause in a time: enough to see who knocks, too few to fill a disk."""

CHUNK_BYTES = 128 * 1024
"""Longer messages are cut into pieces of this size. Small enough that an urgent message waits for a
millisecond or so of a fast network, large enough that the work per piece does not show."""

CHUNK_BYTES_MIN = 4 * 1024
"""The smallest piece that may be followed by another: bounds the number of pieces of a message."""

READ_BUFFER_BYTES = 512 * 1024
"""Read from a peer at once; at least one whole frame, and a few so that reads are few."""

MESSAGE_BYTES_MAX = 512 * 1024 * 1024
"""The largest message between nodes: four of the largest that a client may publish (128 MiB)."""

WRITE_BYTES_PER_TURN = 512 * 1024
"""What is given to the transport at once, and what may wait in it. All else waits in the lanes, where an
urgent message can still overtake it."""

UNSENT_BYTES_MAX = 512 * 1024
"""What the kernel may hold of ours beyond what it has put on the network, for the same reason. Without it
Linux takes up to 4 MiB."""

KERNEL_READ_BYTES_MAX = 1024 * 1024
"""What the kernel may hold for us to read (Linux doubles it). Left alone, it grew to 30 MiB on loopback, and
an urgent message beside a 100 MiB one took 80 ms there and back instead of 25. A network of 10 Gbit/s
with a round trip of 0.8 ms is still used fully."""

CONGESTED_BYTES = 16 * 1024 * 1024
"""When more than this waits for a peer, callers should slow down: a tenth of a second of a 1 Gbit/s network
and far more than the batches that are normally on their way."""

RELIEVED_BYTES = CONGESTED_BYTES // 2
"""When no more than this waits, a congested link is free again."""

QUEUED_BYTES_MAX = 1024 * 1024 * 1024
"""When callers do not slow down, the link is ended here, aloud, before the node's memory is. Twice the
largest message, so that one of them can always be sent."""

UNJOINED_BYTES_MIN = 16 * 1024
"""From this size on, pieces go to the socket as they are; smaller ones are joined first."""

DIAL_TIMEOUT_S = 2.0
"""How long a connection attempt may take. A kernel repeats a lost SYN after one second."""

BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 2.0
"""Pauses between attempts to dial: quick after a restart, and a healed network is noticed in seconds."""

STEADY_LINK_S = 5.0
"""A link that lived this long was a good one: the next pause starts small again."""

CLOSE_FLUSH_TIMEOUT_S = 1.0
"""How long the last bytes of a stopping node may take to leave."""
