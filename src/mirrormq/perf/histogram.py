"""Latency histogram with logarithmic buckets: bounded memory, mergeable, about 1.5 % precise at any scale."""

from __future__ import annotations

SUB_BITS = 6
"""Bits of linear steps: 64 in each power of two. A bucket is at most 1/64 of its value wide."""

SUB_COUNT = 1 << SUB_BITS


def bucket_of(value: int) -> int:
    """Return the bucket of a value; values below SUB_COUNT have one each."""
    if value < SUB_COUNT:
        return max(value, 0)
    shift = value.bit_length() - SUB_BITS - 1
    return (shift + 1) * SUB_COUNT + (value >> shift) - SUB_COUNT


def middle_of(bucket: int) -> int:
    """Return the value in the middle of a bucket."""
    if bucket < SUB_COUNT:
        return bucket
    shift = bucket // SUB_COUNT - 1
    low = (bucket % SUB_COUNT + SUB_COUNT) << shift
    return low + ((1 << shift) >> 1)


class Histogram:
    """Histogram of nanosecond latencies."""

    __slots__ = ("counts", "maximum", "total")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.total = 0
        self.maximum = 0

    def add(self, value: int) -> None:
        """Add one observation."""
        bucket = bucket_of(value)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1
        self.total += 1
        if value > self.maximum:
            self.maximum = value

    def merge(self, other: Histogram) -> None:
        """Add the observations of another histogram."""
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.total += other.total
        self.maximum = max(self.maximum, other.maximum)

    def clear(self) -> None:
        """Drop all observations, as at the end of the warm-up."""
        self.counts.clear()
        self.total = self.maximum = 0

    def percentile(self, percent: float) -> int:
        """Return the value that `percent` of the observations do not exceed; 0 without observations."""
        if not self.total:
            return 0
        wanted = max(1, -(-self.total * percent // 100))
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= wanted:
                return min(middle_of(bucket), self.maximum)
        return self.maximum

    def summary_ms(self) -> dict[str, float]:
        """Return the usual percentiles, in milliseconds."""
        points = (("p50", 50.0), ("p95", 95.0), ("p99", 99.0), ("p999", 99.9))
        summary = {name: round(self.percentile(percent) / 1e6, 3) for name, percent in points}
        summary["max"] = round(self.maximum / 1e6, 3)
        return summary
