"""The only place with a loop, sockets, clocks, threads and chance: it drives the pure parts."""
