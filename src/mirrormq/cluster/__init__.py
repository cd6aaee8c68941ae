"""Clustering of nodes: membership, node failures, partition modes, replica placement and fork recovery."""
