"""Drawings of rings, clusters and charts: the image, and its text for screen readers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Error, Page, expect

from tests.web.conftest import Opener

A, B, C = "mirror1@localhost", "mirror2@localhost", "mirror3@localhost"
WHOLE = {
    "epoch": 7,
    "members": [A, B, C],
    "in_sync": [A, B, C],
    "joining": [],
    "waits_for": [],
    "lag": {},
    "sync": {},
}
RUNNING = [{"name": name, "running": True, "partitions": []} for name in (A, B, C)]

DRAW = """async ([assets, queue, nodes]) => {
  const { html, render } = await import(assets + 'lib/html.js');
  const { ringOf } = await import(assets + 'lib/ring.js');
  const { RingDrawing, RingMembers } = await import(assets + 'components/ring.js');
  let place = document.getElementById('drawing');
  if (!place) {
    place = document.createElement('div');
    place.id = 'drawing';
    document.body.append(place);
  }
  const ring = ringOf(queue, nodes);
  render(html`<${RingDrawing} ring=${ring} flowing=${true} /><${RingMembers} ring=${ring} />`, place);
  return ring;
}"""


class Easel:
    """Page that renders single components."""

    def __init__(self, page: Page, assets: str) -> None:
        self.page = page
        self.assets = assets
        self.place = page.locator("#drawing")

    def ring(self, queue: dict[str, Any], nodes: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        found: dict[str, Any] = self.page.evaluate(DRAW, [self.assets, queue, nodes])
        return found

    def states(self) -> dict[str, str]:
        members = self.place.locator(".ring-member").all()
        return {
            member.locator(".ring-name").text_content() or "": (member.get_attribute("class") or "").split()[
                1
            ]
            for member in members
        }

    def call(self, module: str, name: str, *arguments: Any) -> Any:
        script = "async ([module, name, given]) => (await import(module))[name](...given)"
        return self.page.evaluate(script, [self.assets + module, name, list(arguments)])


@pytest.fixture
def easel(open_page: Opener) -> Easel:
    watched = open_page(reduced_motion="reduce")
    return Easel(watched.page, watched.assets())


def test_a_whole_ring_has_its_master_on_top_and_data_goes_round(easel: Easel) -> None:
    easel.ring({"node": A, "mirrormq": WHOLE}, RUNNING)
    assert easel.states() == {"mirror1": "master", "mirror2": "synchronised", "mirror3": "synchronised"}
    expect(easel.place.locator(".ring-arc.whole")).to_have_count(3)
    expect(easel.place.locator(".ring-epoch")).to_have_text("7")
    places = [member.bounding_box() for member in easel.place.locator(".ring-disc").all()]
    assert places[0] and places[1] and places[2]
    assert places[0]["y"] < places[1]["y"] and places[1]["x"] > places[2]["x"], "clockwise from the top"
    expect(easel.place.get_by_role("img")).to_have_attribute(
        "aria-label", f"Ring of 3 members. {A}: master; {B}: synchronised; {C}: synchronised"
    )


def test_a_mirror_that_catches_up_shows_how_far_it_is(easel: Easel) -> None:
    news = {
        **WHOLE,
        "in_sync": [A, B],
        "joining": [C],
        "lag": {C: 1234},
        "sync": {C: {"done": 450, "total": 1000}},
    }
    easel.ring({"node": A, "mirrormq": news}, RUNNING)
    assert easel.states()["mirror3"] == "syncing"
    expect(easel.place.get_by_role("progressbar", name=f"Synchronisation of {C}")).to_have_attribute(
        "value", "0.45"
    )
    expect(easel.place.locator(".ring-list")).to_contain_text("450 of 1,000 messages")
    expect(easel.place.locator(".ring-list")).to_contain_text("1,234 operations behind")
    expect(easel.place.locator(".ring-arc.filling")).to_have_count(2)


def test_one_operation_is_not_several(easel: Easel) -> None:
    near = {**WHOLE, "in_sync": [A], "lag": {B: 1, C: 2}, "lacks": {B: 1, C: 2}}
    easel.ring({"node": A, "mirrormq": near}, RUNNING)
    members = easel.place.locator(".ring-list li")
    expect(members.nth(1).locator("small")).to_have_text(["lacks 1 message", "1 operation behind"])
    expect(members.nth(2).locator("small")).to_have_text(["lacks 2 messages", "2 operations behind"])


def test_the_ring_closes_over_a_dead_member(easel: Easel) -> None:
    easel.ring({"node": A, "mirrormq": WHOLE}, RUNNING)
    dying = [{**RUNNING[0], "running": False}, *RUNNING[1:]]
    easel.ring({"node": A, "mirrormq": WHOLE}, dying)
    assert easel.states()["mirror1"] == "down"
    expect(easel.place.locator(".ring-arc.broken")).to_have_count(2)
    closed = {**WHOLE, "epoch": 8, "members": [B, C], "in_sync": [B, C]}
    easel.ring({"node": B, "mirrormq": closed}, dying)
    assert easel.states() == {"mirror2": "master", "mirror3": "synchronised"}
    expect(easel.place.locator(".ring-arc.whole")).to_have_count(2)
    expect(easel.place.locator(".ring-epoch")).to_have_text("8")


def test_a_queue_that_is_down_names_the_node_it_waits_for(easel: Easel) -> None:
    news = {**WHOLE, "members": [A], "in_sync": [A], "waits_for": [C]}
    ring = easel.ring({"node": A, "state": "down", "mirrormq": news}, RUNNING)
    assert ring["up"] is False and easel.states() == {"mirror1": "down"}
    expect(easel.place.locator(".ring-list")).to_contain_text("the queue waits for this node")


@pytest.mark.parametrize(
    ("queue", "states"),
    [
        ({"node": A}, {"mirror1": "master"}),
        ({"node": A, "slave_nodes": None, "recoverable_slaves": None}, {"mirror1": "master"}),
        ({"node": A, "mirrormq": {}}, {"mirror1": "master"}),
        (
            {"node": A, "slave_nodes": [B, C], "synchronised_slave_nodes": [C]},
            {"mirror1": "master", "mirror2": "behind", "mirror3": "synchronised"},
        ),
        (
            {"node": A, "mirrormq": {**WHOLE, "in_sync": [A]}},
            {"mirror1": "master", "mirror2": "behind", "mirror3": "behind"},
        ),
        (
            {"node": A, "mirrormq": {**WHOLE, "members": [A, B], "in_sync": [A, B], "joining": [C]}},
            {"mirror1": "master", "mirror2": "synchronised", "mirror3": "joining"},
        ),
    ],
)
def test_rings_of_rabbitmqs_fields_and_of_none_are_right_too(
    easel: Easel, queue: dict[str, Any], states: dict[str, str]
) -> None:
    easel.ring(queue)
    assert easel.states() == states


LETTERS_PX_MIN = 10
LETTERS = """() => [...document.querySelectorAll('#drawing svg text')].map(each => {
  const svg = each.ownerSVGElement.getBoundingClientRect();
  const box = each.getBoundingClientRect();
  const scale = svg.width / each.ownerSVGElement.viewBox.baseVal.width;
  const inside = box.left >= svg.left - 1 && box.right <= svg.right + 1 && box.bottom <= svg.bottom + 1;
  return [each.textContent, parseFloat(getComputedStyle(each).fontSize) * scale, inside];
})"""


def assert_readable(page: Page) -> None:
    """Check that the text in the drawings is large enough and complete."""
    letters = page.evaluate(LETTERS)
    assert letters
    assert not [found for found in letters if found[1] < LETTERS_PX_MIN or not found[2]]


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("members", [1, 2, 3, 4, 5, 6])
def test_a_ring_can_be_read_on_any_screen(open_page: Opener, members: int, width: int) -> None:
    watched = open_page(width=width, reduced_motion="reduce")
    names = [f"rabbitmq-server-{number}@shop" for number in range(members)]
    ring = {**WHOLE, "members": names, "in_sync": names[:1], "lacks": dict.fromkeys(names[1:], 123_456)}
    Easel(watched.page, watched.assets()).ring({"node": names[0], "mirrormq": ring})
    expect(watched.page.locator("#drawing .ring-member")).to_have_count(members)
    assert_readable(watched.page)


def test_a_node_may_be_called_anything(easel: Easel) -> None:
    easel.ring({"node": "<script>alert(1)</script>@h", "slave_nodes": ['"><img src=x>@h']})
    names = ["<script>alert(1)</script>@h", '"><img src=x>@h']
    expect(easel.place.locator(".ring-list-name")).to_have_text(names)
    assert set(easel.states()) == {"…rt(1)</script>", '"><img src=x>'}, "the end of a long name"
    expect(easel.page.locator("#drawing img, #drawing script")).to_have_count(0)


def test_links_are_whole_cut_or_gone(easel: Easel) -> None:
    nodes = [RUNNING[0], {**RUNNING[1], "partitions": [A]}, {**RUNNING[2], "running": False}]
    links = easel.call("components/cluster_map.js", "linksOf", nodes)
    assert [link["state"] for link in links] == ["cut", "gone", "gone"]


def test_masters_and_mirrors_are_counted(easel: Easel) -> None:
    queues = [{"node": A, "slave_nodes": [B, C]}, {"node": A}, {"node": B, "slave_nodes": [C]}, {}]
    assert easel.call("pages/cluster.js", "mastersOf", queues) == {
        A: {"masters": 2, "mirrors": 0},
        B: {"masters": 1, "mirrors": 1},
        C: {"masters": 0, "mirrors": 2},
    }


DRAW_LANES = """async ([assets, events, nodes, nowMs]) => {
  const { html, render } = await import(assets + 'lib/html.js');
  const { Lanes } = await import(assets + 'components/lanes.js');
  const place = document.createElement('div');
  place.id = 'drawing';
  document.body.append(place);
  render(html`<${Lanes} events=${events} nodes=${nodes} nowMs=${nowMs} />`, place);
}"""


def test_a_short_outage_is_seen_beside_the_marks_that_lie_on_it(easel: Easel) -> None:
    """Check an outage of six seconds in eleven minutes, with marks at both ends."""
    second, start = 1000, 1_700_000_000_000
    events = [
        {"at_ms": start, "kind": "node_down", "node": A},
        {"at_ms": start + 1 * second, "kind": "promoted", "node": B, "queue": "q"},
        {"at_ms": start + 6 * second, "kind": "node_up", "node": A},
        {"at_ms": start + 7 * second, "kind": "synchronised", "node": A, "queue": "q"},
        {"at_ms": start + 650 * second, "kind": "node_down", "node": B},
    ]
    easel.page.evaluate(DRAW_LANES, [easel.assets, events, RUNNING, start + 660 * second])
    outages = easel.place.locator("rect.lanes-down")
    expect(outages).to_have_count(2)
    mark = easel.place.locator(".lanes-mark.synchronised circle").bounding_box()
    short, last = outages.nth(0).bounding_box(), outages.nth(1).bounding_box()
    lane = easel.place.locator("rect.lanes-up").nth(1).bounding_box()
    assert mark and short and last and lane
    assert short["width"] >= mark["width"] / 4
    assert short["y"] < mark["y"] - 2 and short["y"] + short["height"] > mark["y"] + mark["height"] + 2
    assert last["x"] + last["width"] <= lane["x"] + lane["width"] + 1


@pytest.mark.parametrize("hours", [1, 100])
def test_lanes_can_be_read_on_a_phone(open_page: Opener, hours: int) -> None:
    watched = open_page(width=390, reduced_motion="reduce")
    begin = 1_700_000_000_000
    events = [{"at_ms": begin, "kind": "node_down", "node": A}]
    watched.page.evaluate(DRAW_LANES, [watched.assets(), events, RUNNING, begin + hours * 3_600_000])
    expect(watched.page.locator("#drawing .lanes-time")).to_have_count(3)
    assert_readable(watched.page)
    boxes = [each.bounding_box() for each in watched.page.locator("#drawing .lanes-time").all()]
    assert all(one and two and one["x"] + one["width"] < two["x"] for one, two in pairwise(boxes))


def test_downtimes_are_between_deaths_and_returns(easel: Easel) -> None:
    events = [
        {"at_ms": 10, "kind": "node_down", "node": A},
        {"at_ms": 15, "kind": "node_down", "node": B},
        {"at_ms": 20, "kind": "node_up", "node": A},
        {"at_ms": 30, "kind": "node_up", "node": A},
        {"at_ms": 40, "kind": "node_down", "node": A},
    ]
    assert easel.call("components/lanes.js", "downtimes", events, A, 0, 50) == [[10, 20], [40, 50]]
    assert easel.call("components/lanes.js", "downtimes", events, C, 0, 50) == []


SAMPLES = [(0, 5), (5, 10), (10, 20), (15, 2), (20, 12)]
"""Counter at each second; between 10 s and 15 s its node has restarted."""


def test_an_unknown_rate_is_a_gap_and_an_absent_counter_is_zero(easel: Easel) -> None:
    samples = [{"timestamp": second * 1000, "sample": count} for second, count in reversed(SAMPLES)]
    source = {"publish_details": {"samples": samples}}
    lines = easel.call("lib/history.js", "linesOf", source, ["publish", "ack"])
    assert lines == {"times": [5, 10, 15, 20], "values": {"publish": [1, 2, None, 2], "ack": [0, 0, 0, 0]}}


DRAW_CHART = """async ([assets, times, values]) => {
  const { html, render } = await import(assets + 'lib/html.js');
  const { Chart } = await import(assets + 'components/chart.js');
  const place = document.createElement('div');
  place.id = 'drawing';
  document.body.append(place);
  const series = [{ name: 'publish', label: 'publish', tone: 'publish', values }];
  render(html`<${Chart} title="t" unit="u" times=${times} series=${series} spanS=${60} tick=${0} />`, place);
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
}"""
# Whether the line is drawn in the middle between each time and the next one.
DRAWN_BETWEEN = """times => {
  const canvas = document.querySelector('#drawing canvas');
  const over = document.querySelector('#drawing .u-over');
  const { width, height, data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const tone = getComputedStyle(document.documentElement).getPropertyValue('--publish').trim();
  const wanted = [1, 3, 5].map((at) => parseInt(tone.slice(at, at + 2), 16));
  const span = times.at(-1) - times[0];
  return times.slice(1).map((second, index) => {
    const share = ((second + times[index]) / 2 - times[0]) / span;
    const x = Math.round((over.offsetLeft + share * over.offsetWidth) * devicePixelRatio);
    return Array.from({ length: height }).some((_, y) =>
      wanted.every((value, part) => Math.abs(data[(y * width + x) * 4 + part] - value) < 8));
  });
}"""


def test_a_chart_draws_no_line_across_an_unknown_rate(easel: Easel) -> None:
    times = [0, 10, 20, 30, 40, 50, 60]
    easel.page.evaluate(DRAW_CHART, [easel.assets, times, [8, 8, 8, None, 8, 8, 8]])
    expect(easel.place.locator("canvas")).to_have_count(1)
    assert easel.page.evaluate(DRAWN_BETWEEN, times) == [True, True, False, False, True, True]


def test_a_boolean_argument_is_true_or_false_and_nothing_else(easel: Easel) -> None:
    for text, value in (("true", True), (" False ", False)):
        assert easel.call("components/arguments_field.js", "typed", "boolean", text) is value
    for text in ("yes", "1", ""):
        with pytest.raises(Error, match=f'"{text}" is neither true nor false'):
            easel.call("components/arguments_field.js", "typed", "boolean", text)
