"""AMQP 0-9-1 as bytes: frames, methods, field tables, properties, content. Pure."""
