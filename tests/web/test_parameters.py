"""Parameters of requests, and paths."""

import json

import pytest

from tests.support.web import Web

STATES = (
    "give Empty, PreparingRebalance, CompletingRebalance, Stable, Dead, Assigning or Reconciling"
)


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("limt=3", "unknown parameter 'limt': give search, state, limit or after"),
        ("limit=0", "parameter 'limit' is '0': give a number from 1 to 500"),
        ("limit=501", "parameter 'limit' is '501': give a number from 1 to 500"),
        ("limit=-1", "parameter 'limit' is '-1': give a number from 1 to 500"),
        ("limit=", "parameter 'limit' is '': give a number from 1 to 500"),
        ("limit=1&limit=2", "parameter 'limit' is given twice: give it once"),
        ("state=stable", f"unknown state 'stable': {STATES}"),
        ("search=%ff", "the query is not percent-encoded UTF-8"),
        ("search=" + 5001 * "x", "parameter 'search' has more than 5000 characters"),
    ],
)
def test_what_is_wrong_with_a_parameter_of_the_list(web: Web, query: str, line: str) -> None:
    answer = web.answer("groups", query)
    assert answer.status == 400
    assert isinstance(answer.body, bytes)
    assert json.loads(answer.body)["error"] == line


def test_a_place_is_two_numbers(web: Web) -> None:
    for text in ("1", "1.", ".1", "a.b", "-1.2", "1.2.3", "11111111111.1"):
        line = f"parameter 'after' is '{text}': give EPOCH.SEQ from an earlier response"
        assert web.error("groups", "g", "events", after=text) == (400, line)


def test_a_path_without_parameters_takes_none(web: Web) -> None:
    line = "unknown parameter 'x': this path takes none"
    assert web.error("groups", "g", "members", x=1) == (400, line)


def test_paths_and_methods_that_do_not_exist_are_told_where_to_look(web: Web) -> None:
    for path in ("", "nothing", "groups/", "groups/g/", "groups/g/x"):
        answer = web.answer(path)
        assert answer.status == 404, path
        assert b"/api/v1/openapi.json" in answer.body  # type: ignore[operator]
    answer = web.answer("groups", method="PUT")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET")
    assert web.answer("groups/%ff").status == 400, "no text"


def test_names_in_a_path_are_unescaped(web: Web) -> None:
    assert web.error("groups", "a/b ü+1") == (404, "group 'a/b ü+1' does not exist")
