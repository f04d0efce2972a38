"""Groupkeeper: a Kafka-wire-compatible group coordinator server that remembers why.

Contains the application around the packages `protocol`, `coordinator` and `storage`. It is the only
package that users import. This module holds the version and imports nothing.
"""

__version__ = "0.1.0.dev0"
