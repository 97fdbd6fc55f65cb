"""kafka-python, imported without its warnings: it reads its schemas in a way that Python 3.11 calls deprecated."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import KafkaAdminClient

__all__ = ["KafkaAdminClient", "KafkaConsumer", "KafkaProducer", "TopicPartition"]
