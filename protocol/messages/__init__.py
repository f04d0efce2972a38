"""The messages, one file per API.

Field names are Kafka's, in snake case; versions are those of Kafka's definitions.
"""
