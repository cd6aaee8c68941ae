// Animated positions on a circle: when a ring loses a member, the others move together.
import { useEffect, useRef, useState } from "../lib/html.js";

const MOVE_MS = 450;
const still = matchMedia("(prefers-reduced-motion: reduce)");
const narrow = matchMedia("(max-width: 48rem)");

// Report whether the screen is as narrow as a phone's: drawings then omit what the text beside them says.
export function useNarrow() {
  const [is, setIs] = useState(narrow.matches);
  useEffect(() => {
    const change = () => setIs(narrow.matches);
    narrow.addEventListener("change", change);
    return () => narrow.removeEventListener("change", change);
  }, []);
  return is;
}

export const point = (centre, radius, angle) => ({ x: centre.x + radius * Math.sin(angle), y: centre.y - radius * Math.cos(angle) });

// Arc along the circle, clockwise from one angle to another.
export function arc(centre, radius, from, to) {
  const start = point(centre, radius, from);
  const end = point(centre, radius, to);
  const large = to - from > Math.PI ? 1 : 0;
  return `M${start.x.toFixed(1)} ${start.y.toFixed(1)} A${radius} ${radius} 0 ${large} 1 ${end.x.toFixed(1)} ${end.y.toFixed(1)}`;
}

// Return the current angle of each name, the first at the top.
export function useAngles(names) {
  const now = useRef({});
  const [, drawAgain] = useState(0);
  const key = names.join("\n");
  useEffect(() => {
    const goal = Object.fromEntries(names.map((name, index) => [name, (index / names.length) * 2 * Math.PI]));
    const start = Object.fromEntries(names.map((name) => [name, now.current[name] ?? goal[name]]));
    const begun = performance.now();
    let frame = null;
    const move = (moment) => {
      const part = still.matches ? 1 : Math.min(1, (moment - begun) / MOVE_MS);
      const eased = 1 - (1 - part) ** 3;
      now.current = Object.fromEntries(names.map((name) => [name, start[name] + (goal[name] - start[name]) * eased]));
      drawAgain((count) => count + 1);
      frame = part < 1 ? requestAnimationFrame(move) : null;
    };
    move(begun);
    return () => frame !== null && cancelAnimationFrame(frame);
  }, [key]);
  return Object.fromEntries(names.map((name, index) => [name, now.current[name] ?? (index / names.length) * 2 * Math.PI]));
}
