// Icons of 16 units; decorative, with text beside them.
import { html } from "../lib/html.js";

const PATHS = {
  overview: "M2 13h12M3.5 10.5l3-4 2.5 2.5 4-6",
  connections: "M5 4.5v3a3 3 0 0 0 6 0v-3M6 2v2.5M10 2v2.5M8 10.5V14",
  channels: "M2 5h9l-2.5-2.500M14 11H5l2.5 2.5",
  exchanges: "M2 8h4l4-5h4M6 8l4 5h4M6 8h8",
  queues: "M2.5 3.500h11v9h-11zM6 3.500v9M9.7 3.500v9",
  cluster: "M8 2.500l5 9H3zM8 2.500v6M3 11.500l5-3 5 3",
  timeline: "M8 2v12M8 4h4M8 8H4M8 12h4",
  bridges: "M2 12V6M14 12V6M2 10h12M2 6c4 0 4-2 6-2s2 2 6 2M5.5 10V5.200M10.500 10V5.200",
  admin: "M8 8.200a2.7 2.7 0 1 0 0-5.4 2.7 2.7 0 0 0 0 5.400M2.8 14c.4-2.8 2.4-4 5.2-4s4.8 1.2 5.2 4",
  pipeline: "M2 4h4v4H2zM10 8h4v4h-4zM6 6h2v4h2",
  menu: "M2.5 4.500h11M2.5 8h11M2.5 11.500h11",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6M8 1.500V3M8 13v1.500M1.5 8H3M13 8h1.500M3.4 3.400l1.1 1.100M11.5 11.500l1.1 1.100M3.4 12.600l1.1-1.100M11.5 4.500l1.1-1.1",
  moon: "M13 9.500A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.500z",
  auto: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12",
  pause: "M5.5 3.500v9M10.500 3.500v9",
  resume: "M5 3l8 5-8 5z",
  columns: "M2.500 3.500h11v9h-11zM6.200 3.500v9M9.800 3.500v9",
  close: "M4 4l8 8M12 4l-8 8",
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false"><path d=${PATHS[name]} /></svg>`;
}

// Logo: a master and two mirrors on their ring.
export function Logo({ size = 28 }) {
  return html`<svg class="logo" viewBox="0 0 32 32" width=${size} height=${size} aria-hidden="true" focusable="false">
    <circle class="logo-ring" cx="16" cy="16" r="11" fill="none" stroke-width="2.5" />
    <circle class="logo-master" cx="16" cy="5" r="4.4" /><circle class="logo-mirror" cx="25.5" cy="21.5" r="3.6" /><circle class="logo-mirror" cx="6.5" cy="21.5" r="3.6" />
  </svg>`;
}
