// What a page shows of the API, asked again when it may have changed.
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
  const missing = state.error?.status === 404; // what is not there does not come by asking every second
  const beat = useStore(live, (value) => (every && !missing ? Math.floor(value.tick / every) : 0));
  const wanted = when && where ? `${where}?${new URLSearchParams(Object.entries(query).filter(([, value]) => value !== undefined))}` : null;
  const running = useRef(null);

  useEffect(() => {
    if (wanted === null) return undefined;
    if (running.current?.wanted === wanted) {
      running.current.stale = true; // one at a time; ask once more when this one is back
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
        // A refresh that fails leaves on the screen what was there.
        setState((before) => (result.error && before.of === wanted && before.data ? { ...before, error: result.error } : result));
        if (mine.stale) askAgain((count) => count + 1);
      });
    return undefined;
  }, [wanted, changes, beat, asked]);

  useEffect(() => () => { running.current?.controller.abort(); running.current = null; }, []);

  const reload = useCallback(() => askAgain((count) => count + 1), []);
  const fits = state.of === wanted;
  // `tick`: how far the stream was when this was asked; what it tells later is newer.
  return { data: fits ? state.data : null, error: fits ? state.error : null, loading: wanted !== null && !fits, tick: state.tick, reload };
}
