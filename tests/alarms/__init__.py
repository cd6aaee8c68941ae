"""Resource alarms on a real node."""
