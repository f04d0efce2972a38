"""The Kafka port: sockets, frames, limits of connections, and the call of a handler.

Handlers are in `apis`. Heartbeats and commits that repeat have short cuts here (`steady.py`,
`steady_commits.py`).
"""
