// Observable store. `set` merges; a component renders again when its selected value changes.
import { useEffect, useReducer, useRef } from "./html.js";

export class Store {
  constructor(value) {
    this.value = value;
    this.listeners = new Set();
  }

  set(patch) {
    this.value = { ...this.value, ...patch };
    for (const listener of [...this.listeners]) listener();
  }
}

export function useStore(store, pick = (value) => value) {
  const [, drawAgain] = useReducer((count) => count + 1, 0);
  const picked = pick(store.value);
  const last = useRef();
  last.current = { pick, picked };
  useEffect(() => {
    const check = () => {
      if (last.current.pick(store.value) !== last.current.picked) drawAgain();
    };
    store.listeners.add(check);
    check();
    return () => store.listeners.delete(check);
  }, [store]);
  return picked;
}
