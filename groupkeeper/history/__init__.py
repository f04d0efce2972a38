"""The history of groups, folded from events: stored by a coordinator, or inferred from the records
of an offsets log. Plain Python, resumable, and the same for any slices of the input.
"""
