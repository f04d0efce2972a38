"""What happened to groups, folded from events: those that a coordinator stored, and those that are
inferred from the records of an offsets log. Plain Python, resumable, and the same for any slices.
"""
