// Time series of the last minutes, for charts: one list of times, one list of values per name.

export const SECONDS_KEPT = 600;

// In the order of the stream's history lines.
export const RATES = [
  "publish", "confirm", "deliver_get", "ack", "redeliver", "return_unroutable", "drop_unroutable", "disk_writes", "disk_reads",
];
export const LENGTHS = ["messages", "messages_ready", "messages_unacknowledged"];
export const NAMES = [...RATES, ...LENGTHS];

export class Series {
  constructor() {
    this.times = [];
    this.values = Object.fromEntries(NAMES.map((name) => [name, []]));
  }

  copy() {
    const copy = new Series();
    copy.times = [...this.times];
    NAMES.forEach((name) => { copy.values[name] = [...this.values[name]]; });
    return copy;
  }

  add(atS, numbers) {
    const last = this.times.at(-1);
    if (last !== undefined && atS <= last) return;
    this.times.push(atS);
    NAMES.forEach((name) => this.values[name].push(numbers[name] ?? 0));
    let old = 0;
    while (this.times[old] < atS - SECONDS_KEPT) old += 1;
    if (old > 0) {
      this.times.splice(0, old);
      NAMES.forEach((name) => this.values[name].splice(0, old));
    }
  }
}

export const isAtRest = (numbers) => RATES.every((name) => numbers[name] === 0);

// Numbers of the overview's totals or of a queue's row, under common names.
export function numbersOf(row) {
  const counted = row.message_stats || {};
  const lengths = row.queue_totals || row;
  const numbers = {};
  RATES.forEach((name) => { numbers[name] = counted[`${name}_details`]?.rate ?? 0; });
  LENGTHS.forEach((name) => { numbers[name] = lengths[name] ?? 0; });
  return numbers;
}
