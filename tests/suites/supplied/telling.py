"""A pytest plugin that tells each test as lines of JSON, as Go's test2json does.

It runs in the other project's environment (`-p telling`), so it uses nothing but pytest's hooks.
`tests/suites/events.py` reads what it prints.
"""

import json
import os

# Standard output as it is before pytest begins to capture it.
_OUT = os.fdopen(os.dup(1), "w", encoding="utf-8")
_ACTIONS = {"passed": "pass", "failed": "fail", "skipped": "skip"}
_reports = {}


def _tell(action, name, **more):
    # in a line of its own, whatever pytest has printed
    print("\n" + json.dumps({"Action": action, "Test": name, **more}), file=_OUT, flush=True)


def pytest_runtest_logstart(nodeid, location):
    _reports[nodeid] = []
    _tell("run", location[2])


def pytest_runtest_logreport(report):
    """Setup, the test and teardown are one to us: the first of them that did not pass counts."""
    phases = _reports[report.nodeid]
    phases.append(report)
    if report.when != "teardown":
        return
    name = report.location[2]
    telling = next((phase for phase in phases if not phase.passed), phases[-1])
    if not telling.passed:
        _tell("output", name, Output=_why(telling))
    seconds = round(sum(phase.duration for phase in phases), 2)
    _tell(_ACTIONS[telling.outcome], name, Elapsed=seconds)


def pytest_collectreport(report):
    if report.failed:
        name = f"{report.nodeid.rpartition('/')[2]} (collecting)"
        _tell("output", name, Output=_why(report))
        _tell("fail", name)


def _why(report):
    """What was raised and where, or the reason for skipping."""
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return f"{crash.message}\n{crash.path}:{crash.lineno}" if crash else report.longreprtext
