"""All checks, in the order of the table."""

import re

from tests.policies import expected, newcomers, others, programs, returns, spares, steps
from tests.policies.checks import CHECKS

__all__ = ["CHECKS", "expected", "newcomers", "others", "programs", "returns", "spares", "steps"]


def _place(number: str) -> tuple[int, str]:
    found = re.match(r"\d+", number)
    return int(found[0] if found else 0), number


CHECKS.sort(key=lambda each: _place(each.number))
