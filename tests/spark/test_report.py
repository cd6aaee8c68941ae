"""The page stands alone, is well formed, shows what was found, and lets nothing of the history in as HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pyspark.sql import SparkSession

from mirrormq.history import HistoryWriter
from mirrormq.spark.audit.history_events import read_events
from mirrormq.spark.jobs.audit import audit
from mirrormq.spark.report.audit_page import page
from mirrormq.spark.report.axes import TimeAxis, ValueAxis
from mirrormq.spark.report.number_format import duration, short_number
from tests.spark.planted import FAULTS, NODES, Planted, at

VOID = {"meta", "br"}


class Structure(HTMLParser):
    """Collects headings, and finds tags that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.attributes += attributes

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("h1", "h2"):
            self.headings.append(data)


def parsed(text: str) -> Structure:
    structure = Structure()
    structure.feed(text)
    assert not structure.open
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(drawing)
    return structure


@pytest.fixture(scope="module")
def failed_page(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("history")
    with Planted(directory) as planted:
        planted.sound()
        for fault in FAULTS:
            getattr(planted, fault)()
        planted.writer.fault_began("partition", detail="mirror1 | mirror2", time_ns=at(1900))
        planted.writer.disconnected(NODES[0], publisher=1, time_ns=at(1000))
    return page(audit(read_events(spark, str(directory)), "somewhere"))


def test_the_page_is_well_formed_and_has_every_section(failed_page: str) -> None:
    headings = parsed(failed_page).headings
    assert headings[0].endswith("other problems.")
    assert headings[1:] == [
        "Problems and notes", "Timeline", "Faults", "Loss by epoch", "Lost messages",
        "Unexpected messages", "Redeliveries without the flag", "Epochs with two masters",
        "Replicas that differ", "Messages that were overtaken", "Queues", "Latencies",
        "Longest silence of the cluster and of each node", "Interruptions", "Replicas in the end",
        "Rows of the history",
        "Words",
    ]  # fmt: skip


def test_the_page_loads_only_from_its_node(failed_page: str) -> None:
    assert "<script" not in failed_page
    assert "url(" not in failed_page and "@import" not in failed_page
    names = {name for name, _ in parsed(failed_page).attributes}
    assert not names & {"src", "href", "xlink:href", "srcset", "data"}
    assert "prefers-color-scheme: dark" in failed_page


def test_the_timeline_shows_faults_masters_and_loss(failed_page: str) -> None:
    for hint in (
        "kill of mirror1@localhost, +1.000 s, for 1.00 s",
        "partition (mirror1 | mirror2), +1.900 s, never ended",
        "epoch 1: mirror1@localhost, since +0.000 s",
        "1 lost of those confirmed around",
        "Confirms per second",
        "Time to delivery",
    ):
        assert hint in failed_page, hint


def test_names_of_the_history_are_text(spark: SparkSession, tmp_path: Path) -> None:
    nasty = "<script>alert('&\"')</script>"
    with HistoryWriter(tmp_path) as history:
        history.attempted(nasty, 1, 1, nasty, time_ns=at(0))
        history.confirmed(nasty, 1, [1], nasty, time_ns=at(1))
        fault = history.fault_began(nasty, nasty, detail=nasty, time_ns=at(0))
        history.fault_ended(fault, time_ns=at(2))
        history.master(nasty, nasty, 1, time_ns=at(0))
        history.replica(nasty, nasty, 1, 1, 1, 1, time_ns=at(3))
        history.disconnected(nasty, detail=nasty, time_ns=at(3))
    text = page(audit(read_events(spark, str(tmp_path)), nasty))
    parsed(text)
    assert "<script" not in text
    assert "&lt;script&gt;alert(&#x27;&amp;&quot;&#x27;)" in text


def test_a_history_of_one_row_has_a_page(spark: SparkSession, tmp_path: Path) -> None:
    with HistoryWriter(tmp_path) as history:
        history.attempted("q", 1, 1, "a", time_ns=at(0))
    parsed(page(audit(read_events(spark, str(tmp_path)), "small")))


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0 ns"), (999, "999 ns"), (1_500, "1.50 µs"), (12_340_000, "12.3 ms"), (999_600_000, "1,000 ms"),
        (2e9, "2.00 s"), (119e9, "119 s"), (120e9, "2.00 min"), (2 * 3.6e12, "2.00 h"), (None, "–"),
    ],
)  # fmt: skip
def test_durations_read_well(nanoseconds: float | None, text: str) -> None:
    assert duration(nanoseconds) == text


def test_axes_have_round_numbers() -> None:
    assert [label for _, label in ValueAxis.counting([870.0]).ticks()] == ["0", "500", "1 k"]
    assert [label for _, label in ValueAxis.latency([2e5, 3e7]).ticks()] == [
        "100 µs",
        "1 ms",
        "10 ms",
        "100 ms",
    ]
    seconds = TimeAxis(0, 60 * 10**9).ticks()
    assert [label for _, label in seconds] == ["0 s", "10 s", "20 s", "30 s", "40 s", "50 s", "60 s"]
    assert TimeAxis(5, 5).ticks(), "a history of one moment has an axis too"
    assert short_number(12_500) == "12.5 k"
