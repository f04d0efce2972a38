"""Intercepts the requests and responses of a test broker, and records them as text."""
