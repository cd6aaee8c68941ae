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

CONTROL_LINE_BYTES_MAX = 16 * 1024 * 1024
"""A chunk of a control reply that is written at once, so that listing 100,000 queues does not
build one buffer in the socket's transport."""

SOCKET_PATH_BYTES_MAX = 107
"""The longest path of a Unix socket on Linux: `sun_path` has 108 bytes, one of them a NUL."""
