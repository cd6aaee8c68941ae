// History of an object's numbers, from the samples that the node keeps: finer for the last minutes than for the last day.
import { useFetch } from "./fetching.js";

const STEP_S = { 60: 5, 600: 5, 3600: 60, 28800: 600, 86400: 1800 }; // Distance of samples, by length of the history.
export const SPANS_S = Object.keys(STEP_S).map(Number);
const KINDS = ["msg_rates", "lengths", "data_rates", "node_stats"];
const REFRESH_S_MAX = 60;

function rangeOf(spanS) {
  return Object.fromEntries(KINDS.flatMap((kind) => [[`${kind}_age`, spanS], [`${kind}_incr`, STEP_S[spanS]]]));
}

// Fetch an object with its history; `fresh` repeats the request as often as a new sample may exist.
export function useHistory(where, spanS, { fresh = true, when = true, columns } = {}) {
  const every = fresh ? Math.min(STEP_S[spanS], REFRESH_S_MAX) : 0;
  return useFetch(where, { ...rangeOf(spanS), columns }, { every, when, follow: null });
}

// Samples of one number, the oldest first: [[second, value], …].
const samplesOf = (source, name) => (source?.[`${name}_details`]?.samples || []).map(({ timestamp, sample }) => [timestamp / 1000, sample]).reverse();

// A counter that shrinks belongs to a new master or a restarted node: that rate is unknown.
function ratesOf(samples) {
  return samples.slice(1).map(([second, value], index) => {
    const [before, old] = samples[index];
    return [second, value >= old ? (value - old) / (second - before) : null];
  });
}

// → {times, values: {name: [numbers]}}; `isLevel`: the numbers themselves instead of their growth per second.
// `isNeverZero`: the node has no sample for a time whose number is 0.
export function linesOf(source, names, { isLevel = false, isNeverZero = false } = {}) {
  const measured = (name) => samplesOf(source, name).filter(([, value]) => !isNeverZero || value !== 0);
  const lines = names.map((name) => [name, new Map(isLevel ? measured(name) : ratesOf(samplesOf(source, name)))]);
  const times = [...new Set(lines.flatMap(([, found]) => [...found.keys()]))].sort((one, other) => one - other);
  // A counter without samples has counted nothing, but an unknown rate stays unknown: the line has a gap there.
  const valueAt = (found, second) => (found.has(second) ? found.get(second) : isLevel ? null : 0);
  return { times, values: Object.fromEntries(lines.map(([name, found]) => [name, times.map((second) => valueAt(found, second))])) };
}

// Put the samples of the node before the events that this tab has received.
export function joined(past, series, names) {
  const first = series.times[0] ?? Infinity;
  const old = past.times.filter((second) => second < first).length;
  return {
    times: [...past.times.slice(0, old), ...series.times],
    values: Object.fromEntries(names.map((name) => [name, [...past.values[name].slice(0, old), ...series.values[name]]])),
  };
}
