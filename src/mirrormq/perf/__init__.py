"""A load generator and latency meter for any AMQP 0-9-1 broker, so light that the broker is the limit.

One process, non-blocking sockets, no object per message. Publishers send slices of one prebuilt
run of identical messages; consumers learn the byte layout of the first delivery and count the
following ones by striding over the buffer. `frames.py` has the tricks, `load.py` the loop.
"""
