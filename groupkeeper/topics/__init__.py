"""The state of topics: catalog, partitions, producers, and what reads and changes them.

Not the APIs, which are in `apis`, and not a broker for production loads: see docs/topics.md.
"""
