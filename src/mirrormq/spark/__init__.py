"""MirrorMQ for Spark. Installed by the extra `[spark]`; the broker never imports it."""
