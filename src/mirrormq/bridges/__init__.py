"""Bridges to other brokers: links that move messages, their placement on nodes, shovels, federation. Pure.

`Link` is one link without sockets. `link_placement` assigns links to nodes. The runtime connects both to
sockets, clocks and the metadata.
"""
