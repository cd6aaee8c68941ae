"""Tables of the report. Each is empty text without contents, and its section is then left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mirrormq.spark.audit.activity import TICK_NS
from mirrormq.spark.audit.findings import Findings, Row
from mirrormq.spark.audit.message_outcomes import CLASSES
from mirrormq.spark.report.number_format import duration, number, since, text

BAD = ("lost", "unexpected", "unflagged")
"""Numbers shown in red when they are not zero."""


def table(heads: Iterable[str], rows: Iterable[Iterable[str]], left: int = 1) -> str:
    """Return a table of ready-made HTML cells; all but the first `left` columns are aligned to the right."""
    head = "".join(f"<th{_aligned(i, left)}>{name}</th>" for i, name in enumerate(heads))
    body = "".join(
        "<tr>" + "".join(f"<td{_aligned(i, left)}>{cell}</td>" for i, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    if not body:
        return ""
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _aligned(index: int, left: int) -> str:
    return "" if index < left else ' class="n"'


def _run(found: Findings, row: Row) -> list[str]:
    """Return the run's number, if there is more than one run."""
    return [text(row["run"])] if found.runs > 1 else []


def _run_head(found: Findings) -> list[str]:
    return ["run"] if found.runs > 1 else []


def queues(found: Findings) -> str:
    """Return the classes per queue."""

    def cell(name: str, value: int) -> str:
        return f'<b class="bad">{number(value)}</b>' if name in BAD and value else number(value)

    rows = [
        [*_run(found, row), text(row["queue"]), *(cell(name, row[name]) for name in CLASSES)]
        for row in found.queues
    ]
    heads = [name.replace("_", " ") for name in CLASSES]
    return table([*_run_head(found), "queue", *heads], rows, left=1 + len(_run_head(found)))


def faults(found: Findings, limit: int) -> str:
    """Return each fault with its lost messages."""
    lost: dict[tuple[int, int | None], dict[str, int]] = {}
    for row in found.lost_by_fault:
        lost.setdefault((row["run"], row["fault"]), {})[row["relation"]] = row["lost"]
    rows = []
    for fault in found.faults[:limit]:
        mine = lost.get((fault["run"], fault["fault"]), {})
        end = fault["end_ns"]
        lasted = "never ended" if end is None else duration(end - fault["begin_ns"])
        losses = [_lost(mine.get(relation, 0)) for relation in ("during", "before")]
        where = text(fault["node"] or "cluster")
        begin = since(fault["begin_ns"], found.start_ns)
        rows.append(
            [*_run(found, fault), text(fault["what"]), where, text(fault["detail"]), begin, lasted, *losses]
        )
    apart = [row for row in found.lost_by_fault if row["relation"] == "apart"]
    rows += [[*_run(found, row), "no fault", "", "", "", "", _lost(row["lost"]), ""] for row in apart]
    heads = [
        "fault",
        "where",
        "detail",
        "began",
        "lasted",
        "lost, confirmed in it",
        "lost, confirmed before it",
    ]
    return table([*_run_head(found), *heads], rows, left=3 + len(_run_head(found)))


def _lost(count: int) -> str:
    return f'<b class="bad">{number(count)}</b>' if count else "0"


def lost_by_epoch(found: Findings) -> str:
    """Return the lost messages of each epoch's master."""
    nodes = {
        (row["run"], row["queue"], row["epoch"]): ", ".join(sorted({*row["masters"], *row["confirming"]}))
        for row in found.epochs
    }
    rows = [
        [
            *_run(found, row),
            text(row["queue"]),
            text("before the first known" if row["epoch"] is None else row["epoch"]),
            text(nodes.get((row["run"], row["queue"], row["epoch"]))),
            _lost(row["lost"]),
        ]
        for row in found.lost_by_epoch
    ]
    return table(
        [*_run_head(found), "queue", "epoch", "master", "lost"], rows, left=3 + len(_run_head(found))
    )


def message_examples(found: Findings, name: str) -> str:
    """Return examples of a class, with their times."""
    rows = [
        [
            *_run(found, row),
            text(row["queue"]),
            text(row["publisher"]),
            text(row["number"]),
            *(number(row[column]) for column in ("attempted", "confirmed", "delivered")),
            *(
                since(row[f"{column}_ns"], found.start_ns)
                for column in ("attempt", "confirm", "last_delivery")
            ),
        ]
        for row in found.examples.get(name, ())
    ]
    heads = ["queue", "publisher", "number", "attempts", "confirms", "deliveries"]
    heads += ["first attempt", "first confirm", "last delivery"]
    return table([*_run_head(found), *heads], rows, left=1 + len(_run_head(found)))


def inversions(found: Findings) -> str:
    """Return examples of overtaken messages."""
    rows = [
        [
            *_run(found, row),
            text(row["queue"]),
            text(row["consumer"]),
            text(row["publisher"]),
            number(row["number"]),
            number(row["after"]),
            since(row["time_ns"], found.start_ns),
        ]
        for row in found.inversions
    ]
    heads = ["queue", "consumer", "publisher", "number", "came after", "at"]
    return table([*_run_head(found), *heads], rows, left=1 + len(_run_head(found)))


def split_epochs(found: Findings) -> str:
    """Return epochs with more than one master."""
    rows = [
        [
            *_run(found, row),
            text(row["queue"]),
            number(row["epoch"]),
            text(", ".join(row["masters"])),
            text(", ".join(row["confirming"])),
            number(row["confirms"]),
            since(row["since_ns"], found.start_ns),
        ]
        for row in found.split_epochs
    ]
    heads = ["queue", "epoch", "claimed to be master", "confirmed as master", "confirms", "since"]
    return table([*_run_head(found), *heads], rows, left=4 + len(_run_head(found)))


def divergences(found: Findings) -> str:
    """Return positions where replicas differ, with the contents of each."""
    rows = [
        [
            *_run(found, row),
            text(row["queue"]),
            number(row["epoch"]),
            number(row["sequence"]),
            "<br>".join(_replica(replica) for replica in row["replicas"]),
        ]
        for row in found.divergences
    ]
    return table([*_run_head(found), "queue", "epoch", "sequence", "replicas"], rows, left=9)


def _replica(row: Row) -> str:
    return f"{text(row['node'])}: {number(row['count'])} messages, checksum {_hexadecimal(row['checksum'])}"


def _hexadecimal(checksum: int | None) -> str:
    return "–" if checksum is None else f"<code>{checksum & 0xFFFFFFFFFFFFFFFF:016x}</code>"


def replicas(found: Findings) -> str:
    """Return the last contents of every replica."""
    rows = [
        [
            *_run(found, row),
            text(row["queue"]),
            text(row["node"]),
            number(row["epoch"]),
            number(row["sequence"]),
            number(row["count"]),
            _hexadecimal(row["checksum"]),
        ]
        for row in found.replicas
    ]
    heads = ["queue", "node", "epoch", "sequence", "messages", "checksum"]
    return table([*_run_head(found), *heads], rows, left=2 + len(_run_head(found)))


def silences(found: Findings) -> str:
    """Return the longest time without a confirm, and without a delivery, in the cluster and at each node."""
    rows = [
        [
            *_run(found, row),
            text(row["node"]),
            "confirms" if row["kind"] == "confirmed" else "deliveries",
            f"under {duration(TICK_NS)}" if row["silence_ns"] <= TICK_NS else duration(row["silence_ns"]),
            since(row["from_ns"], found.start_ns) if row["silence_ns"] > TICK_NS else "",
            since(row["to_ns"], found.start_ns) if row["silence_ns"] > TICK_NS else "",
        ]
        for row in (*found.cluster_silences, *found.silences)
    ]
    return table(
        [*_run_head(found), "node", "without", "for", "from", "to"], rows, left=2 + len(_run_head(found))
    )


def latencies(found: Findings) -> str:
    """Return percentiles."""
    names = [name for name in (found.latencies[0] if found.latencies else {}) if name[0] == "p"]
    rows = [
        [
            {"confirm": "time to confirm", "delivery": "time to delivery"}[row["measure"]],
            number(row["messages"]),
            *(duration(row[name]) for name in (*names, "max")),
        ]
        for row in found.latencies
    ]
    return table(["", "messages", *names, "longest"], rows)


def interruptions(found: Findings) -> str:
    """Return lost connections and cancelled consumers, per node."""
    rows = [
        [text(row["node"]), number(row["disconnected"]), number(row["cancelled"])]
        for row in found.interruptions
    ]
    return table(["node", "connections lost", "consumers cancelled"], rows)


def kinds(found: Findings) -> str:
    """Return the number of rows of each kind."""
    return table(["kind", "rows"], [[text(kind), number(count)] for kind, count in found.kinds.items()])


def cut(shown: list[Any], limit: int) -> str:
    """Return a note below a table that was cut."""
    return f'<p class="quiet">Only the first {limit} are shown.</p>' if len(shown) >= limit else ""
