"""Methods that block, for coroutines: each call is made on a thread."""

from asyncio import to_thread
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")


class OnThread(Generic[S]):
    """An object whose methods block, to be awaited."""

    def __init__(self, blocking: S) -> None:
        self._blocking = blocking


# Any: what coroutines are sent, which is asyncio's.
def on_thread(
    call: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[OnThread[S], P], Coroutine[Any, Any, T]]:
    """The same method, with the same parameters and documentation, to be awaited."""

    @wraps(call)
    async def awaited(self: OnThread[S], /, *args: P.args, **named: P.kwargs) -> T:
        return await to_thread(call, self._blocking, *args, **named)

    return awaited
