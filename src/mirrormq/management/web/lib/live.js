// Live event stream: one connection while the tab is visible, with automatic reconnect.
//
// A browser's EventSource cannot send a login header, so the stream is read with fetch.
import { open } from "./api.js";
import { session } from "./session.js";
import { isAtRest, NAMES, numbersOf, Series } from "./series.js";
import { Store } from "./store.js";

const SILENCE_MS_MAX = 6000; // The node sends an event every second.
const RETRY_MS = [500, 1000, 2000, 4000];
const QUEUES_KEPT_MAX = 1000;

const nothing = () => ({
  status: "connecting", tick: 0, atMs: 0, definitions: 0, pipeline: 0, more: 0, totals: null, nodes: null,
  history: new Series(), queues: new Map(),
});

export const live = new Store(nothing());
export const keyOf = (row) => JSON.stringify([row.vhost, row.name]);

let stopping = null;

function heardHistory(lines) {
  const history = new Series();
  lines.forEach(([at, ...numbers]) => history.add(at, Object.fromEntries(NAMES.map((name, index) => [name, numbers[index]]))));
  live.set({ history });
}

function heardFrame(frame) {
  const { queues, history, tick, more } = live.value;
  history.add(frame.at_ms / 1000, numbersOf(frame.totals));
  for (const row of frame.queues) {
    const key = keyOf(row);
    const series = queues.get(key)?.series || new Series();
    queues.delete(key);
    queues.set(key, { row, series, tick: tick + 1 });
  }
  for (const key of queues.keys()) {
    if (queues.size <= QUEUES_KEPT_MAX) break;
    queues.delete(key);
  }
  for (const entry of queues.values()) { // A queue without an event has not changed, unless its node is down.
    const numbers = numbersOf(entry.row);
    if (entry.tick === tick + 1 || isAtRest(numbers)) entry.series.add(frame.at_ms / 1000, numbers);
  }
  live.set({
    status: "open", tick: tick + 1, atMs: frame.at_ms, definitions: frame.definitions, pipeline: frame.pipeline,
    more: frame.more ? more + 1 : more, totals: frame.totals, nodes: frame.nodes,
  });
}

function heard(event) {
  const name = /^event: (.*)$/m.exec(event)?.[1];
  const data = /^data: (.*)$/m.exec(event)?.[1];
  if (name === "history") heardHistory(JSON.parse(data));
  if (name === "frame") heardFrame(JSON.parse(data));
}

async function follow(signal) {
  const silence = new AbortController();
  const stop = () => silence.abort();
  signal.addEventListener("abort", stop);
  let watch = setTimeout(stop, SILENCE_MS_MAX);
  try {
    const response = await open("mirrormq/live", { signal: silence.signal });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let unread = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watch);
      watch = setTimeout(stop, SILENCE_MS_MAX);
      const events = (unread + value).split("\n\n");
      unread = events.pop();
      events.forEach(heard);
    }
  } finally {
    clearTimeout(watch);
    signal.removeEventListener("abort", stop);
  }
}

async function keepFollowing(signal) {
  let tries = 0;
  while (!signal.aborted) {
    const before = live.value.tick;
    await follow(signal).catch((error) => error);
    if (signal.aborted || !session.value.login) return;
    tries = live.value.tick > before ? 0 : tries + 1;
    live.set({ status: "lost" });
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS[Math.min(tries, RETRY_MS.length - 1)]));
  }
}

function start() {
  if (stopping || document.hidden || !session.value.user || live.value.status === "paused") return;
  stopping = new AbortController();
  keepFollowing(stopping.signal);
}

function stop() {
  stopping?.abort();
  stopping = null;
}

// Stop the stream, and with it every periodic request, until `resume`.
export function pause() {
  stop();
  live.set({ status: "paused" });
}

export function resume() {
  live.set({ status: "connecting" });
  start();
}

// Streams of six tabs would use all connections that a browser opens to one server.
document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));

let watched = null;
session.listeners.add(() => {
  if (session.value.user === watched) return;
  watched = session.value.user;
  stop();
  live.set(nothing());
  start();
});
