"""AMQP 0-9-1 client core: bytes in, events out, bytes to send. No socket, clock, thread or event loop.

`ClientConnection` is the state machine of one connection, `ClientChannel` of one channel. The package
`client_io` connects them to blocking sockets and to asyncio.
"""
