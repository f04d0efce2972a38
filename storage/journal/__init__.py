"""The journal: batches of all logs, made durable before they are acknowledged."""
