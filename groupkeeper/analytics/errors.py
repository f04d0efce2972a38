"""The errors of an analysis. Damage inside a log is reported as data."""

from typing import ClassVar


class AnalyticsError(Exception):
    """Nothing to read, a missing path, no Java: `str(error)` is one line for the user, who can fix
    it.
    """

    exit_code: ClassVar[int] = 2


class SparkFailed(AnalyticsError):
    """Spark gave up: no memory, no space, workers that cannot import this package."""

    exit_code: ClassVar[int] = 1
