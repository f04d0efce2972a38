"""Runs the partitions of `__consumer_offsets`: loads, drives, writes and closes them.

Decides nothing about groups: `coordinator` does.
"""
