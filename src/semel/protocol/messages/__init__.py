"""One module per Kafka message: its request and response class, with the structures inside them."""
