"""Exit codes of the programs that mean something to a service manager or a shell."""

CONFIGURATION = 78
"""Exit code EX_CONFIG of sysexits.h. Service managers do not restart a node that ends with it."""

UNAVAILABLE = 75
"""Exit code EX_TEMPFAIL of sysexits.h: an address or directory is in use, and a later start may succeed."""

INTERRUPTED = 130
"""Exit code that shells give a program ended by Ctrl-C."""
