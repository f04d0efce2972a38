"""Estimates the effect of other settings: replays the recorded behaviour of clients through the
coordinator's own decisions, under virtual time. Does not use Spark.
"""
