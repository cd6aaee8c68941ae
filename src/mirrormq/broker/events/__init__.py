"""What a node tells of what happens: events, remarks for the log, copies for the firehose."""
