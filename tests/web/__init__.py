"""Tests of the web page: its files and headers, its stream, and its use in a real browser."""
