"""Reads `__consumer_offsets` of a running Kafka cluster, and infers what happened to its groups."""
