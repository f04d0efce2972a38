"""What people and programs see over HTTP: the JSON API under `/api/v1`, and server-sent events.

The port itself (connections, limits) is in `observe`. Nothing here is imported, and nothing is kept
in memory, before the first request.
"""
