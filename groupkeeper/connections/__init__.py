"""The Kafka port: sockets, frames, limits of connections, and the call of a handler.

Handlers are in `apis`. Only the heartbeat has a short cut here (`steady.py`).
"""
