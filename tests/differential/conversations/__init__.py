"""Random AMQP conversations: a seed makes them, a player speaks them to a broker."""
