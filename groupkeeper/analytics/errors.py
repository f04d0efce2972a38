"""The error of an analysis that the user can fix. Damage inside a log is reported as data."""


class AnalyticsError(Exception):
    """Nothing to read, a missing path, no Java: `str(error)` is one line for the user."""
