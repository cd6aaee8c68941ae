// Groups of timeline events: a failover of a hundred queues is one entry.

const GAP_MS_MAX = 10000; // Events of one failover follow each other within seconds.
const GROUPS_OPEN_MAX = 8; // An event is compared with the latest groups only.
const GROUPED = new Set(["promoted", "synchronised", "left_in_sync"]);

const sameCause = (one, other) => one.kind === other.kind && one.text === other.text && Math.abs(one.at_ms - other.at_ms) <= GAP_MS_MAX;

// events: sorted by time, in either direction. → [[event, …], …]; events of other kinds in between do not split a group.
export function groupsOf(events) {
  const groups = [];
  for (const event of events) {
    const group = GROUPED.has(event.kind) && groups.slice(-GROUPS_OPEN_MAX).find((each) => sameCause(each.at(-1), event));
    if (group) group.push(event);
    else groups.push([event]);
  }
  return groups;
}

const known = (values) => values.filter((value) => Number.isFinite(value));

export function summaryOf(group) {
  return {
    nodes: [...new Set(group.map((event) => event.node).filter(Boolean))].sort(),
    gapMs: known(group.map((event) => event.gap_ms)).length ? Math.max(...known(group.map((event) => event.gap_ms))) : null,
    redelivered: group.reduce((sum, event) => sum + (event.redelivered || 0), 0),
  };
}
