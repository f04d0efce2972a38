"""Makes blocking methods awaitable by running each call in a worker thread."""

from asyncio import to_thread
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")


class OnThread(Generic[S]):
    """Base class of an awaitable counterpart of an object with blocking methods."""

    def __init__(self, blocking: S) -> None:
        self._blocking = blocking


# Any: the send type of coroutines, internal to asyncio.
def on_thread(
    call: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[OnThread[S], P], Coroutine[Any, Any, T]]:
    """Return an awaitable version of a method, with the same parameters and docstring."""

    @wraps(call)
    async def awaited(self: OnThread[S], /, *args: P.args, **named: P.kwargs) -> T:
        return await to_thread(call, self._blocking, *args, **named)

    return awaited
