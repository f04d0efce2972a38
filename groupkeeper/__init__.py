"""Groupkeeper: a Kafka-wire-compatible group coordinator server that remembers why.

The application around the packages `protocol`, `coordinator` and `storage`, and the only name that
users import. This module holds the version and imports nothing.
"""

__version__ = "0.1.0.dev0"
