"""The Kafka sink: rows and ledger in one Kafka transaction for each micro-batch."""
