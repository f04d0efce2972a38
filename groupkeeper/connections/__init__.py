"""The Kafka port: sockets, frames, what a connection may hold, and the call of a handler.

Knows no API but the heartbeat's short cut: what answers is in `apis`.
"""
