"""Checks as results of a suite: in this process, or in one whose lines a suite reads.

Not here: what is checked, and what lines of other programs mean (`events.py`).
"""

import json
import time
import traceback
from collections.abc import Callable

from tests.suites.suite import Outcome, Result, SuiteError

WAIT_SECONDS = 30.0
_POLL_SECONDS = 0.02


class UnmetError(AssertionError):
    """Something did not come about in time, or is not so; the text says what."""


def wait_for(so: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Raises UnmetError if it is not so before the time is up."""
    until = time.monotonic() + seconds
    while not so():
        if time.monotonic() > until:
            raise UnmetError(f"not within {seconds:.0f} s: {what}")
        time.sleep(_POLL_SECONDS)


def verdict_of(name: str, passed: bool, detail: str = "") -> Result:
    """The result of a check that was made already."""
    return Result(name, Outcome.PASSED if passed else Outcome.FAILED, detail=detail)


def checked(name: str, check: Callable[[], None]) -> Result:
    """Make a check, which fails with whatever it raises. Raises SuiteError."""
    began = time.monotonic()
    outcome, detail = Outcome.PASSED, ""
    try:
        check()
    except SuiteError:
        raise
    except Exception as error:  # noqa: BLE001  # whatever it is, the other checks are made
        outcome, detail = Outcome.FAILED, str(error) or type(error).__name__
    return Result(name, outcome, time.monotonic() - began, detail)


def tell(name: str, check: Callable[[], None]) -> None:
    """Make a check, and print events of it, in the form that `events.py` reads."""
    _say("run", name)
    began, action = time.monotonic(), "pass"
    try:
        check()
    except Exception:  # noqa: BLE001  # whatever it is, the other checks are made
        action = "fail"
        _say("output", name, Output=traceback.format_exc())
    _say(action, name, Elapsed=round(time.monotonic() - began, 2))


def _say(action: str, name: str, **more: object) -> None:
    print(json.dumps({"Action": action, "Test": name, **more}), flush=True)
