"""Simulates several broker nodes in one process: leadership, and the responses of each node."""
