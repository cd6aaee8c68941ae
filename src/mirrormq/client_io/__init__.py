"""Socket adapters of the AMQP client core: one blocking, one for asyncio, TLS for both.

The core (`client`) is pure and must not import them. They are separate from `runtime`, which holds a whole
node: load generators and Spark workers import a client only.
"""
