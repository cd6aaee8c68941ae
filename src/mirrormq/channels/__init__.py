"""Channels: one client's conversation about publishing, consuming and declaring. Pure."""
