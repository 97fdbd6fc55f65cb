"""A partition's replicas on their brokers: leader, followers, in-sync replicas, high watermark."""
