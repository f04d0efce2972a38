"""Logs on disk: batches in Kafka's format, made durable. It knows nothing of groups."""
