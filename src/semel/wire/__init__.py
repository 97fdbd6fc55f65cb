"""A small blocking Kafka client for Spark tasks and drivers: metadata, offsets, fetch, produce, transactions.

    cluster = shared_cluster(WireSettings.from_options({"kafka.bootstrap.servers": "localhost:9092"}))
    partitions = cluster.topic("orders", Deadline.after_ms(30_000)).partitions

Import from the modules; this file imports nothing, because every Spark worker pays for what it would import.
"""
