"""One file per Kafka API key: decode is done, ask a core, build the answer. The listing is the feature list."""
