"""Runs the partitions of `__consumer_offsets`: loads, drives, writes and closes them.

Makes no decisions about groups: those are in `coordinator`.
"""
