"""The web page: its files and headers, its stream, and a real browser that uses it."""
