"""The coordinator hosted: partitions loaded, driven, written and closed in this process.

Not a place for decisions: those are made in `coordinator`.
"""
