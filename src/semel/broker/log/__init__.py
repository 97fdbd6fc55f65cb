"""The log of one partition: segments, indexes, producer state, recovery, retention, compaction. Files, no network."""
