"""The embedded data plane: topics, Produce, Fetch, ListOffsets and what else clients ask.

Not the group coordinator, and not a broker for production loads: see docs/topics.md.
"""
