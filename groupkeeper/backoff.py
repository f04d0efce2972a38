"""How long to wait before something that failed is tried again."""


class Backoff:
    """Pauses that grow: the first, then twice as long each time, up to the longest; in seconds."""

    __slots__ = ("_first", "_most", "_next")

    def __init__(self, first: float, most: float) -> None:
        self._first = self._next = first
        self._most = most

    def failed(self) -> float:
        """It failed again: the pause before the next try."""
        pause = self._next
        self._next = min(2 * pause, self._most)
        return pause

    def reset(self) -> None:
        """It has worked: the next failure is taken for a new one."""
        self._next = self._first
