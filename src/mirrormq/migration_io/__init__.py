"""Input and output of a migration: HTTP API of both clusters, links, HAProxy's socket, the directory."""
