"""The type of a test broker, for its parts: `bench` imports them, so they cannot import it."""

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from groupkeeper.testing.bench import Bench

Host: TypeAlias = "Bench"
