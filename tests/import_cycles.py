"""Cycles in a graph of imports."""

from __future__ import annotations


def import_cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the sets of modules that import each other, directly or not: modules that reach each other."""
    reached = {module: reachable(graph, module) for module in graph}
    back = {module: {other for other in reached[module] if module in reached[other]} for module in graph}
    return [set(cycle) for cycle in {frozenset(cycle) for cycle in back.values() if cycle}]


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    pending = list(graph[start])
    while pending:
        module = pending.pop()
        if module not in found:
            found.add(module)
            pending += graph[module]
    return found
