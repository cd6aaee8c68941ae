"""Migration from a running RabbitMQ: survey, definitions, phases, moved messages, comparison. Pure.

`phases` decides which step follows and what holds in each phase. `migration_io` connects it to brokers, a
proxy and files.
"""
