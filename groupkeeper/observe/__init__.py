"""Observability: log lines, metrics, and the HTTP port that serves them."""
