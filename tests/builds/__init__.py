"""Tests of the two builds of the message core."""
