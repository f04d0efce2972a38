"""The one error of an analysis that is the user's to mend. Not for damage inside a log: that is
reported as data.
"""


class AnalyticsError(Exception):
    """Nothing to read, a path that is not there, no Java: `str(error)` is one line for the user."""
