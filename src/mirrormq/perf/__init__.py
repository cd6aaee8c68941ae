"""Load generator and latency meter for any AMQP 0-9-1 broker, light enough for the broker to be the limit.

One process, non-blocking sockets, no object per message. Publishers send slices of one prebuilt run of
identical messages. Consumers learn the byte layout of the first delivery and count the following ones by
striding over the buffer. `publish_frames.py` has the techniques, `load_run.py` the loop.
"""
