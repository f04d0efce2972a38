"""The state of topics: catalog, partitions and producers, and the code that reads and changes them.

The APIs are in `apis`. Not intended as a broker for production loads: see docs/topics.md.
"""
