"""Sockets for the AMQP client core: one adapter that blocks, one for asyncio, TLS for both.

The core (`client`) is pure and must not import them. They stand apart from `runtime`, which holds a whole
node, so that load generators and Spark workers import a client and nothing else.
"""
