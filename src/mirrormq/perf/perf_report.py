"""Report of a run, as numbers for programs and as text lines."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field


@dataclass(slots=True)
class PerfReport:
    """Counts and rates of the measured time, latencies in milliseconds."""

    mode: str
    seconds: float
    published: int = 0
    confirmed: int = 0
    consumed: int = 0
    rejected: int = 0
    returned: int = 0
    blocked_seconds: float = 0.0
    generator_cpu_percent: float = 0.0
    """Generator's share of one core; near 100 means that the generator, not the broker, was the limit."""
    longest_confirm_gap_ms: float = 0.0
    """Longest time that a producer with unconfirmed messages waited for the next confirm."""
    confirm_latency_ms: dict[str, float] = field(default_factory=dict)
    deliver_latency_ms: dict[str, float] = field(default_factory=dict)

    def rate(self, count: int) -> float:
        """Return messages per second."""
        return count / self.seconds if self.seconds else 0.0

    def as_dict(self) -> dict[str, object]:
        """Return the report for --json."""
        rates = {
            "published_per_second": round(self.rate(self.published), 1),
            "confirmed_per_second": round(self.rate(self.confirmed), 1),
            "consumed_per_second": round(self.rate(self.consumed), 1),
        }
        return asdict(self) | rates

    def lines(self) -> list[str]:
        """Return the report as text lines."""
        lines = [f"measured    {self.seconds:.2f} s"]
        for name in ("published", "confirmed", "consumed", "rejected", "returned"):
            count = getattr(self, name)
            if count:
                lines.append(f"{name:<11} {self.rate(count):>11,.0f} msg/s   {count:>12,} messages")
        for name, latency in (("confirm", self.confirm_latency_ms), ("deliver", self.deliver_latency_ms)):
            if latency:
                points = "   ".join(f"{point} {value:.2f}" for point, value in latency.items())
                lines.append(f"{name:<11} {points}   ms")
        if self.longest_confirm_gap_ms:
            lines.append(f"longest gap {self.longest_confirm_gap_ms:.1f} ms between two confirms")
        if self.blocked_seconds:
            lines.append(f"blocked     {self.blocked_seconds:.2f} s by the broker's memory or disk alarm")
        note = "  (the generator was the limit)" if self.generator_cpu_percent > 90 else ""
        lines.append(f"generator   {self.generator_cpu_percent:.0f} % of a core{note}")
        return lines
