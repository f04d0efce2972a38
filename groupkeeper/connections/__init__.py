"""The Kafka port: sockets, frames, limits of connections, and the call of a handler.

Handlers are in `apis`. Repeated heartbeats and commits have fast paths here (`steady.py`,
`steady_commits.py`).
"""
