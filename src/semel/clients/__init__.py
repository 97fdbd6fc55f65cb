"""Producer, Consumer and Deduplicator for application code, and what their settings mean for a guarantee."""
