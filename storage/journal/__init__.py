"""The journal: batches of all logs, durable before they are acknowledged."""
