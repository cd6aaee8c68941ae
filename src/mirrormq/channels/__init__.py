"""Channels of AMQP connections: publishing, consuming, acknowledging and declaring. Pure."""
