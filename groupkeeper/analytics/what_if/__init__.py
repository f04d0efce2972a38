"""What would have happened with other settings: what clients did is replayed through the
coordinator's own decisions, under virtual time. No Spark here.
"""
