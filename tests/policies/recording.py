"""Puts outcomes of some checks into the record of suites; other checks keep the last that they
had.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from tests.policies.catalogue import CHECKS
from tests.policies.plays import Outcome
from tests.suites.suite import Outcome as Ending
from tests.suites.suite import Result, Suite
from tests.suites.verdict import OURS, RECORD, Verdict, record


def keep(suite: Suite, outcomes: Iterable[Outcome], path: Path = RECORD) -> None:
    """Record these outcomes of our server. What is no check any more is dropped."""
    results = {each.name: each for each in _recorded(suite, path)}
    for each in outcomes:
        ending = Ending.FAILED if each.fault else Ending.PASSED
        results[each.name] = Result(each.name, ending, each.seconds, each.fault)
    verdict = Verdict(suite, ours=True)
    for check in CHECKS:
        if check.key in results:
            verdict.add(results[check.key])
    record(OURS, [verdict], path)


def _recorded(suite: Suite, path: Path) -> Iterable[Result]:
    before = json.loads(path.read_text(encoding="utf-8"))["suites"].get(suite.name, {})
    told = before.get("results", {}).get(OURS, {"passing": [], "failed": {}})
    for name in told["passing"]:
        yield Result(name, Ending.PASSED)
    for name, fault in told["failed"].items():
        yield Result(name, Ending.FAILED, detail=fault)
