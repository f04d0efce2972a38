"""Kafka's wire language: bytes to messages and back.

Pure functions and classes, without sockets, clocks, threads or logging. What a message *means* is
not known here: that is the business of `coordinator`.
"""
