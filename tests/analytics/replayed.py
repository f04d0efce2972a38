"""The answer to `what_if` for all groups in tables. For tests."""

from groupkeeper.analytics.answering import replay, replays_of
from groupkeeper.analytics.questions.registry import QUESTIONS, Local


def replayed_of(tables):
    """Rows, group after group."""
    groups = {*tables["sessions"]["group"].to_pylist()}
    with Local(tables) as local:
        local.ask(QUESTIONS["not_stable"])
        items = replays_of(local, sorted(groups), {})
    return [row for item in items for row in replay(item).to_pylist()]
