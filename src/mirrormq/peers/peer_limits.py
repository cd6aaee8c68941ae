"""Sizes and timeouts of links between nodes and of their streams, each with the reason for its value."""

from __future__ import annotations

from dataclasses import dataclass

NONCE_BYTES = 32
"""Size of a nonce: as many random bytes as a proof has, so that neither is the weaker part."""

HANDSHAKE_MESSAGE_BYTES_MAX = 1024
"""Maximum handshake message: two names and a cluster id of at most 255 bytes each, a nonce, and some room.
An unauthenticated peer can make a node keep no more than this."""

STATEMENT_BYTES_MAX = 400
"""Maximum statement: a name and six numbers fit. A handshake message has room for it beside two names and
a nonce."""

NAME_BYTES_MAX = 255
"""Maximum length of a node's name or a cluster's id: host names have at most 253 bytes."""

REFUSAL_BYTES_MAX = 120
"""Maximum length of a refusal: one short sentence."""

HANDSHAKE_TIMEOUT_S = 5.0
"""Seconds for two round trips, with a peer whose loop may be blocked for a second and a half."""

PENDING_HANDSHAKES_MAX = 64
"""Maximum accepted sockets without a proof. The largest clusters have a few dozen nodes. Beyond this the
node drops the oldest one, so that a flood of connections cannot lock out a peer."""

REFUSALS_LOGGED_MAX = 20
REFUSALS_LOGGED_WINDOW_S = 10.0
"""Log lines per window that unauthenticated peers can cause: enough to identify them, too few to fill a
disk."""

CHUNK_BYTES = 128 * 1024
"""Size of the chunks of longer messages. Small enough that an urgent message waits for about a millisecond
of a fast network, large enough that the work per chunk is negligible."""

CHUNK_BYTES_MIN = 4 * 1024
"""Smallest chunk that may be followed by another: bounds the number of chunks of a message."""

READ_BUFFER_BYTES = 512 * 1024
"""Bytes read from a peer at once: at least one whole frame, and several so that reads are few."""

MESSAGE_BYTES_MAX = 512 * 1024 * 1024
"""Largest message between nodes: four of the largest that a client may publish (128 MiB)."""

WRITE_BYTES_PER_TURN = 512 * 1024
"""Bytes passed to the transport at once, and bytes that may wait in it. The rest waits in the lanes, where
an urgent message can still overtake it."""

UNSENT_BYTES_MAX = 512 * 1024
"""Unsent bytes that the kernel may hold, so that urgent messages can overtake the rest. Without this limit
Linux accepts up to 4 MiB."""

KERNEL_READ_BYTES_MAX = 1024 * 1024
"""Unread bytes that the kernel may hold (Linux doubles the value). Without a limit it grew to 30 MiB on
loopback. An urgent message beside a 100 MiB one then took 80 ms there and back instead of 25 ms. A network
of 10 Gbit/s with a round trip of 0.8 ms is still used fully."""

CONGESTED_BYTES = 16 * 1024 * 1024
"""Waiting bytes beyond which callers should slow down: a tenth of a second of a 1 Gbit/s network, and far
more than the batches that are normally in transit."""

RELIEVED_BYTES = CONGESTED_BYTES // 2
"""Waiting bytes at which a congested link is free again."""

QUEUED_BYTES_MAX = 1024 * 1024 * 1024
"""Waiting bytes at which the link is closed, if callers do not slow down, before the node runs out of
memory. Twice the largest message, so that one of them can always be sent."""

UNJOINED_BYTES_MIN = 16 * 1024
"""Size from which pieces go to the socket unchanged; smaller ones are joined first."""

DIAL_TIMEOUT_S = 2.0
"""Seconds for a connection attempt. A kernel repeats a lost SYN after one second."""

BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 2.0
"""Pauses between dial attempts: short after a restart, and a healed network is noticed within seconds."""

STEADY_LINK_S = 5.0
"""Age from which a link counts as stable: the next pause is short again."""

CLOSE_FLUSH_TIMEOUT_S = 1.0
"""Seconds for the last bytes of a stopping node to leave."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Limits that a stream receives at its construction."""

    stream_bytes_max: int = 16 * 1024 * 1024
    """Unacknowledged bytes from one node to another: the size at which a link reports itself as congested."""

    frame_bytes: int = 512 * 1024
    """Size at which a stream frame leaves at once, so that the receiver can start to process it."""

    frames_unreported_max: int = 64
    """Frames received before a separate acknowledgement is sent. As a rule the end of a turn comes first."""


DEFAULT_STREAM_LIMITS = StreamLimits()

SMALL_BYTES = 64
"""Approximate size of an item without contents."""
