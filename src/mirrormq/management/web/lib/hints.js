// Known policy keys, arguments of queues and arguments of exchanges, each with the type of its value.
// The text of a hint has the key without "x-": `hint.message-ttl`.
import { known, t } from "./i18n.js";

const string = (key, value = "") => ({ key, type: "string", value });
const number = (key) => ({ key, type: "number", value: "" });

const LIMITS = [number("message-ttl"), number("expires"), number("max-length"), number("max-length-bytes"), string("overflow", "reject-publish")];
const DEAD_LETTERS = [string("dead-letter-exchange"), string("dead-letter-routing-key")];
const PLACEMENT = [string("queue-mode", "lazy"), string("queue-master-locator", "min-masters")];
const MIRRORING = [
  string("ha-mode", "all"), { key: "ha-params", type: "json", value: "" }, string("ha-sync-mode", "automatic"), number("ha-sync-batch-size"),
  string("ha-promote-on-shutdown", "when-synced"), string("ha-promote-on-failure", "when-synced"), string("ha-orphans", "keep"), string("ha-redeliver", "lost"),
];

export const POLICY_HINTS = [...MIRRORING, ...LIMITS, ...DEAD_LETTERS, ...PLACEMENT, string("alternate-exchange"), string("federation-upstream-set", "all"), string("federation-upstream")];
export const OPERATOR_HINTS = LIMITS.slice(0, 4);
export const QUEUE_HINTS = [
  ...[...LIMITS, ...DEAD_LETTERS].map((hint) => ({ ...hint, key: `x-${hint.key}` })),
  { key: "x-single-active-consumer", type: "boolean", value: "true" }, number("x-max-priority"),
  ...PLACEMENT.map((hint) => ({ ...hint, key: `x-${hint.key}` })),
];
export const EXCHANGE_HINTS = [string("alternate-exchange"), string("hash-header"), string("hash-property"), number("x-recent-history-length")];

const bare = (key) => key.replace(/^x-/, "");

export const hintOf = (key) => (known(`hint.${bare(key)}`) ? t(`hint.${bare(key)}`) : "");
