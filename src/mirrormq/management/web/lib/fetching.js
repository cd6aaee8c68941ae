// Hook that fetches from the API, and again when the data may have changed.
//
//   useFetch("policies")                       again when definitions change
//   useFetch("connections", {}, {every: 2})    and every two seconds
//   useFetch("queues", {}, {every: 10, follow: null})     every ten seconds only
//   useFetch("mirrormq/jobs", {}, {follow: "pipeline"})   again when jobs or leases change
import { get } from "./api.js";
import { useCallback, useEffect, useRef, useState } from "./html.js";
import { live } from "./live.js";
import { useStore } from "./store.js";

export function useFetch(where, query = {}, { every = 0, when = true, follow = "definitions" } = {}) {
  const [state, setState] = useState({ data: null, error: null, of: null, tick: 0 });
  const [asked, askAgain] = useState(0);
  const changes = useStore(live, (value) => (follow ? value[follow] : 0));
  const missing = state.error?.status === 404; // A missing object does not appear by polling.
  const beat = useStore(live, (value) => (every && !missing ? Math.floor(value.tick / every) : 0));
  const wanted = when && where ? `${where}?${new URLSearchParams(Object.entries(query).filter(([, value]) => value !== undefined))}` : null;
  const running = useRef(null);

  useEffect(() => {
    if (wanted === null) return undefined;
    if (running.current?.wanted === wanted) {
      running.current.stale = true; // One request at a time: repeat after this one.
      return undefined;
    }
    running.current?.controller.abort();
    const mine = { wanted, controller: new AbortController(), stale: false };
    const { tick } = live.value;
    running.current = mine;
    get(where, query, mine.controller.signal)
      .then((data) => ({ data, error: null, of: wanted, tick }), (error) => ({ data: null, error, of: wanted, tick }))
      .then((result) => {
        if (running.current !== mine) return;
        running.current = null;
        // A failed refresh keeps the data on the screen.
        setState((before) => (result.error && before.of === wanted && before.data ? { ...before, error: result.error } : result));
        if (mine.stale) askAgain((count) => count + 1);
      });
    return undefined;
  }, [wanted, changes, beat, asked]);

  useEffect(() => () => { running.current?.controller.abort(); running.current = null; }, []);

  const reload = useCallback(() => askAgain((count) => count + 1), []);
  const fits = state.of === wanted;
  // `tick`: position of the stream at the request; later stream events are newer than the reply.
  return { data: fits ? state.data : null, error: fits ? state.error : null, loading: wanted !== null && !fits, tick: state.tick, reload };
}
