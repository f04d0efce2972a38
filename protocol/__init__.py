"""Kafka's wire protocol: decodes bytes into messages and encodes messages into bytes.

Pure functions and classes, without sockets, clocks, threads or logging. How a server acts on a
message is decided elsewhere.
"""
