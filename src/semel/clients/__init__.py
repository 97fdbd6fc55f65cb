"""Producer, Consumer and Deduplicator for application code, and what their settings mean for a guarantee.

Clients stand on confluent-kafka (the extra `clients`), which is imported when the first client is made.
"""
