"""Rebuilds the history of groups (rebalances, sessions, owners) from the events that a coordinator
stored, or from the records of `__consumer_offsets`. Resumable; slicing the input changes nothing.
"""
