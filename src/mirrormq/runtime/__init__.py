"""Runtime: event loop, sockets, clocks, threads and randomness. Drives the pure packages."""
