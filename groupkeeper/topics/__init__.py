"""The state of topics: catalog, partitions and producers, and what reads and changes them.

The APIs are in `apis`. This is no broker for production loads: see docs/topics.md.
"""
