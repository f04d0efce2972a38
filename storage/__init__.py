"""Durable logs on disk, as batches in Kafka's format. Independent of consumer groups."""
