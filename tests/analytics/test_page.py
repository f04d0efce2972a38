"""The report as a page: what is in it, and what must never be."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import groupkeeper
from groupkeeper.analytics import answering
from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.page import render, write_report
from groupkeeper.analytics.page.findings import OFFSETS
from groupkeeper.analytics.page.panels import INTERVALS
from groupkeeper.analytics.page.report import (
    NO_FINDINGS,
    NO_PANELS,
    NO_ROUNDS,
    NO_TABLES,
    NO_TIME,
    NO_WHAT_IF,
)
from groupkeeper.analytics.questions.registry import QUESTIONS
from groupkeeper.analytics.schemas import TABLES, Column
from tests.analytics.page_sample import START, about, table_of, tables

MOST_BYTES = 1_000_000
PICTURE_BYTES = 60_000
SVG = "http://www.w3.org/2000/svg"  # a name, not an address
VOID = {"meta", "br", "input", "img", "link"}
OPTIONAL = {"tr", "td", "th"}


class Page(HTMLParser):
    """Elements and texts, with a check that what is opened is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID | OPTIONAL:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID | OPTIONAL:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in ("style", "script"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def attributes(self, name: str) -> list[str]:
        return [value for _, each in self.elements if (value := each.get(name)) is not None]


@pytest.fixture(scope="module")
def sample():
    return tables(5, 4)


@pytest.fixture(scope="module")
def large():
    return render(tables(1_000), about())


@pytest.fixture(scope="module")
def page(sample):
    return render(sample, about())


def test_findings_come_first(page):
    found = Page(page)
    sections = [each["id"] for kind, each in found.elements if kind == "section"]
    assert sections[:3] == ["findings", "read", "time"]
    assert "The group stood still for 5 h 12 min in 412 rebalances" in found.text
    assert "max.poll.records 500 → 80" in found.text


def test_the_page_names_nothing_elsewhere(page):
    assert not re.search(r"(https?:)?//[a-z]", page.replace(SVG, ""))
    found = Page(page)
    places = [*found.attributes("href"), *found.attributes("src")]
    assert places
    assert all(each.startswith("#") for each in places)
    assert not found.attributes("style")


def test_every_place_that_is_linked_is_there_once(page):
    found = Page(page)
    names = found.attributes("id")
    assert len(names) == len(set(names))
    assert {each.removeprefix("#") for each in found.attributes("href")} <= set(names)


def test_a_page_of_many_groups_stays_small(large):
    assert len(large.encode("utf-8")) < MOST_BYTES
    assert len(re.findall("<tr><th scope=row>.*team-", large)) > 900
    assert "1,000 groups" in Page(large).text


def pictures_of(made: str) -> dict[str, dict]:
    """What is drawn, by figure."""
    [told] = re.findall('<script type="application/json" id="pictures">(.*?)</script>', made)
    return json.loads(told)


def test_a_picture_has_at_most_60_kilobytes(large):
    pictures = pictures_of(large)
    assert len(pictures) > 10
    assert (
        max(len(json.dumps(each, separators=(",", ":"))) for each in pictures.values())
        <= PICTURE_BYTES
    )


def test_each_lane_that_is_drawn_is_a_row_of_its_figure(page):
    """A row has a name and words, which are read without a script and by a screen reader."""
    for name, picture in pictures_of(page).items():
        [figure] = re.findall(rf'<figure class="card" id="{name}">.*?</figure>', page, re.DOTALL)
        assert figure.count('<span class="lane"></span>') == len(picture["rows"])
        assert figure.count('<span class="name"></span>') == 0
        assert "The picture needs a script; these are its numbers." in Page(figure).text


def test_what_is_embedded_are_places_and_looks_and_no_names_but_of_owners(page):
    """Names of groups, topics and clients are in the HTML once."""
    pictures = pictures_of(page)
    owners = [name for each in pictures.values() for name in each.pop("owners", [])]
    assert any(name.startswith("payments-") for name in owners)
    assert not re.search("payments|orders|10\\.0\\.0", json.dumps(pictures))


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
def test_the_script_has_no_errors_of_syntax_and_its_own_digest(page):
    [code] = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    command = ["node", "--check", "-"]
    ran = subprocess.run(command, input=code, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert not re.search("^(import|export) ", code, re.MULTILINE)
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in page


def test_the_style_is_that_of_the_live_page(page):
    """One file, so that both have one palette."""
    live = Path(groupkeeper.__file__).parent / "web" / "page" / "page.css"
    assert live.read_text(encoding="utf-8") in page


def test_every_number_of_a_finding_is_in_its_table(sample, page):
    [findings] = re.findall(r'<ol class="findings">.*?</ol>', page, re.DOTALL)
    rows = sample["findings"].to_pylist()
    told = " ".join(str(each) for row in rows for each in row.values())
    known = {*re.findall(r"\d+", told), *(str(number) for number in range(1, len(rows) + 1))}
    known |= {str(len(row["evidence"]) - OFFSETS) for row in rows}
    shown = [each.replace(",", "") for each in re.findall(r"\d[\d,]*", Page(findings).text)]
    assert len(shown) > 100
    assert [each for each in shown if each not in known and each.lstrip("0") not in known] == []


HOSTILE = (
    "</script><script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "\u202egnp.exe\x1b[31m\x00",
    "a" * 32_767,
    "<" * 32_767,
    "</title></style></desc></svg><b>",
)


def test_names_out_of_a_log_stay_text(sample):
    """Each text of each table is one of them."""
    hostile = {}
    for name, content in sample.items():
        rows = content.slice(0, 400).to_pylist()
        for number, row in enumerate(rows):
            for column, value in row.items():
                if isinstance(value, str) and column not in ("cause", "likely", "severity"):
                    row[column] = HOSTILE[number % len(HOSTILE)]
        hostile[name] = pa.Table.from_pylist(rows, content.schema)
    made = render(hostile, about(paths=HOSTILE, choice=HOSTILE[0], damage=HOSTILE))
    found = Page(made)
    usual = Page(render(sample, about(damage=["one"])))
    assert {kind for kind, _ in found.elements} <= {kind for kind, _ in usual.elements}
    assert not [key for _, each in found.elements for key in each if key.startswith("on")]
    assert len(made.encode("utf-8")) < MOST_BYTES
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", made)
    assert "<script>alert(1)</script>" in found.text
    assert made.count("</script>") == 2
    assert pictures_of(made)


def test_nothing_at_all_gives_a_page_that_says_so():
    found = Page(render({}, about(records=None, read_bytes=None)))
    assert "No group was read" in found.text
    assert "Time not known Source" in found.text
    for words in (NO_ROUNDS, NO_FINDINGS, NO_PANELS, NO_WHAT_IF, NO_TABLES, NO_TIME):
        assert words in found.text


def test_empty_tables_are_as_missing_ones():
    empty = {name: table_of(each.schema, []) for name, each in TABLES.items()}
    found = Page(render(empty | {"findings": table_of(answering.SCHEMA, [])}, about()))
    assert "Nothing was found that should be changed." in found.text
    assert NO_ROUNDS in found.text


@pytest.mark.parametrize("missing", sorted(tables(2, 2)))
def test_each_table_may_be_missing(missing):
    Page(render({name: each for name, each in tables(2, 2).items() if name != missing}, about()))


def test_one_rebalance_is_drawn():
    found = Page(render(tables(1, 1), about()))
    assert "Rebalances per" in found.text
    assert "payments" in found.text
    [row] = tables(1, 2)["rounds"].slice(0, 1).to_pylist()
    only = pa.Table.from_pylist([row], TABLES["rounds"].schema)
    assert "1 rebalance" in Page(render({"rounds": only}, about())).text


def test_rebalances_without_times_or_durations_are_counted():
    row = {"group": "g", "ended": 1_700_000_000_000, "source": "log", "confidence": 0.5}
    rounds = table_of(TABLES["rounds"].schema, [row, {"group": "g"}, {}])
    found = Page(render({"rounds": rounds}, about()))
    assert NO_TIME in found.text
    assert "1 rebalances" not in found.text
    assert "2 rebalances without a group or a usable time" in found.text


def test_findings_have_half_of_the_rows_that_the_page_has_room_for():
    row = {"id": "f", "severity": "low", "group": "g", "sentence": "x" * 500}
    found = {"findings": table_of(answering.SCHEMA, [row] * 1_000)}
    shown = re.search(r"(\d+) of 1,000", Page(render(tables(1_000) | found, about())).text)
    assert shown
    assert int(shown[1]) > 200


def test_what_was_inferred_is_marked():
    found = Page(render(tables(3, 2, inferred=True), about()))
    assert "Inferred: the logs have no group events" in found.text
    assert "with confidence 0.80" in found.text
    assert "Inferred:" not in Page(render(tables(3, 2), about())).text


def test_unknown_durations_are_not_shown_as_none():
    known = Page(render(rounds_of({}, {"duration_ms": None}), about())).text
    assert "5 s not stable, 8.3 % of the time" in known
    unknown = Page(render(rounds_of({"duration_ms": None}), about())).text
    assert "of the time" not in unknown
    assert "not stable for 0" not in unknown


@pytest.mark.parametrize(
    ("days", "rate"), [(0, "24 a group and day"), (2, "0.5 a"), (2_000, "less than 0.01 a")]
)
def test_a_rate_is_of_an_hour_at_least(days, rate):
    coverage = coverage_of(START - days * 86_400_000, START)
    assert f"1 rebalance, {rate}" in Page(render(rounds_of({}) | coverage, about())).text


def test_damage_is_said_at_the_top(sample):
    found = Page(render(sample, about(damage=["7 bytes of x.log are no batch"])))
    assert found.text.index("7 bytes of x.log") < found.text.index("findings, 4 of them")


def test_times_far_off_are_left_out_and_counted():
    """A log may have any 64 bits as a time."""
    tomorrow = round(about().made.timestamp() * 1000) + 30 * 3_600_000
    times = (-(2**62), 2**62, 0, tomorrow)
    rows = [{"group": "g", "started": at, "ended": at, "duration_ms": 5} for at in times]
    ahead = {"group": "payments", "minute": tomorrow, "commits": 1}
    sound = tables(1, 2)
    sample = sound | {
        "rounds": pa.concat_tables([sound["rounds"], table_of(TABLES["rounds"].schema, rows)]),
        "commit_minutes": pa.concat_tables(
            [sound["commit_minutes"], table_of(TABLES["commit_minutes"].schema, [ahead])]
        ),
    }
    made, other = render(sample, about()), render(sound, about())
    assert "4 rebalances without a group or a usable time" in Page(made).text
    for figure in ("rate", "group-1-curves"):
        assert texts_of(made, figure) == texts_of(other, figure)
        assert pictures_of(made)[figure] == pictures_of(other)[figure]


def test_a_page_without_a_usable_time_does_not_say_that_nothing_was_read():
    rows = [{"group": "g", "started": 0, "ended": 0, "duration_ms": 5}]
    sample = {"rounds": table_of(TABLES["rounds"].schema, rows)}
    assert "<title>No rebalance has a usable time</title>" in render(sample, about())
    assert "<title>No group was read</title>" in render({}, about())


def test_tables_of_answers_have_the_words_of_their_questions(sample):
    asked = SimpleNamespace(
        title="Storms",
        meaning="Look for many.",
        columns=(Column("number", pa.int64(), "How many."),),
    )
    storms = pa.table({"group": ["billing"], "number": [7]})
    made = render({"storms": storms}, about(questions={"storms": asked}))
    assert "Storms 1 row" in Page(made).text
    assert "Look for many." in made
    assert 'title="How many."' in made


def test_the_same_tables_give_the_same_page(sample, page):
    assert render(sample, about()) == page


# -- what pictures say -----------------------------------------------------------------------------


def texts_of(made: str, figure: str) -> str:
    [inner] = re.findall(rf'<figure class="card" id="{figure}">.*?</figure>', made, re.DOTALL)
    return Page(inner).text


def rounds_of(*rows: dict[str, object]) -> dict[str, pa.Table]:
    usual = {"group": "g", "source": "events", "cause": "session_expired", "members": 2}
    made = [
        usual | {"started": START + number * 60_000, "duration_ms": 5_000} | row
        for number, row in enumerate(rows)
    ]
    return {"rounds": table_of(TABLES["rounds"].schema, made)}


def coverage_of(begin: int, until: int) -> dict[str, pa.Table]:
    span = {"log": "l", "partition": 0, "from": begin, "until": until}
    return {"coverage": table_of(TABLES["coverage"].schema, [span])}


def owned(*rows: dict[str, object]) -> dict[str, pa.Table]:
    usual = {"group": "g", "topic": "t", "topic_partition": 0, "generation": 1, "is_owned": True}
    return {"ownership": table_of(TABLES["ownership"].schema, [usual | row for row in rows])}


def test_the_highest_bar_says_how_many_it_is():
    made = render(rounds_of({}, {}, {}, {"started": START + 3_600_000}), about())
    assert "4 rebalances of 1 group; at most 1 in one minute" in texts_of(made, "rate").replace(
        "in 30 seconds", "in one minute"
    )


def test_a_likely_cause_counts_more_than_its_code():
    slow = {"cause": "member_left", "likely": "max_poll_exceeded"}
    told = texts_of(render(rounds_of(slow, slow, {}), about()), "timeline")
    assert "3, S application too slow 67 %" in told


def answer_of(name: str, **row: object) -> dict[str, pa.Table]:
    return {name: table_of(QUESTIONS[name].schema, [{"group": "g", **row}])}


def test_answers_without_a_picture_are_tables_with_the_largest_rows_first():
    late = {"client_id": "c", "host": "10.0.0.7", "held": 2, "share": 0.5}
    gaps = {"restarts": 4, "median_ms": 20_000, "p95_ms": 38_000, "within": 0.25}
    answers = answer_of("barrier", **late, held_ms=5_000, longest_ms=4_000)
    answers |= answer_of("restart_gaps", **gaps, session_timeout_ms=10_000, proposed_ms=60_000)
    answers |= answer_of("idle_members", member="m-1", idle_ms=60_000, share=0.5)
    told = Page(render(rounds_of({}) | answers, about())).text
    for each in ("10.0.0.7 2 50 % 5 s 4 s", "4 20 s 38 s", "10 s 25 % 60 s", "m-1"):
        assert each in told


def test_time_not_stable_is_a_share_of_what_was_read():
    coverage = coverage_of(START, START + 1_000_000)
    told = texts_of(render(rounds_of({}, {}) | coverage, about()), "not-stable")
    assert "10 s, 1.0 %; longest 5 s" in told


def test_owners_are_shown_where_most_time_went_without_one():
    """A gap of ten seconds in two days is shown in minutes."""
    day = START + 86_400_000
    ownership = owned(
        {"topic_partition": 3, "from": START, "until": day, "member": "a"},
        {"topic_partition": 3, "from": day, "until": day + 10_000, "is_owned": False},
        {"topic_partition": 3, "from": day + 10_000, "member": "b"},
    )
    rounds = rounds_of({}, {"started": day}, {"started": day + 3_600_000})
    made = render(rounds | ownership, about())
    told, picture = texts_of(made, "group-1-owners"), pictures_of(made)["group-1-owners"]
    [begin, first, gap, nobody, after, second] = picture["rows"][1]["owners"]
    assert (begin, first, nobody, second, picture["owners"]) == (0, 0, -1, 1, ["a", "b"])
    assert after - gap > picture["of"] / 200
    [(at, _, look, letter)] = picture["rows"][0]["bars"]
    assert (at, look, letter) == (gap, "p0", "E")
    assert "Without an owner for 10 s of partition time" in told
    assert "t-3 10 s" in told
    assert "2026-11-09 23:58 to 2026-11-10 00:23" in told


def test_owners_that_are_not_known_are_said_to_be():
    ownership = owned(
        {"from": START + 60_000, "until": START + 120_000, "member": "a"},
        {"from": START + 180_000, "until": START + 240_000, "instance": "a"},
    )
    made = render(rounds_of(*[{}] * 6) | ownership, about())
    assert pictures_of(made)["group-1-owners"]["rows"][1]["owners"][1::2] == [-2, 0, -2, 0, -2]


def test_a_group_with_very_many_partitions_shows_those_without_an_owner_for_the_longest():
    """And a shorter time where there are too many intervals."""
    rows = []
    for number in range(200):
        lost = 900 if number in (7, 11) else 1
        for begin in range(START, START + 100_000, 1_000):
            gap = {"from": begin, "until": begin + lost, "is_owned": False}
            after = {"from": begin + lost, "until": begin + 1_000, "member": "a"}
            rows += [{"topic_partition": number} | each for each in (gap, after)]
    made = render(rounds_of({}, {}) | owned(*rows), about())
    told, picture = texts_of(made, "group-1-owners"), pictures_of(made)["group-1-owners"]
    assert "the 32 with the longest gaps of 200 partitions" in told
    assert {"t-7", "t-11"} <= set(told.split())
    lanes = [each["owners"] for each in picture["rows"][1:]]
    assert len(lanes) == 32
    assert sum(map(len, lanes)) <= 2 * INTERVALS + 2 * 32
    assert all(owner != -2 for lane in lanes for owner in lane[1:-2:2])


def test_commits_and_lag_are_drawn_over_the_same_time():
    place = {"group": "g", "topic": "t"}
    minutes = [place | {"topic_partition": each, "minute": START, "commits": 30} for each in (0, 1)]
    lag = [place | {"time": START + at * 60_000, "lag": at, "lag_ms": at * 1_000} for at in (0, 2)]
    told = {
        "commit_minutes": table_of(TABLES["commit_minutes"].schema, minutes),
        "lag": table_of(TABLES["lag"].schema, lag),
    }
    made = render(rounds_of(*[{}] * 4) | told, about())
    words = texts_of(made, "group-1-curves")
    assert "commits a minute, all partitions at most 60" in words
    assert "lag of the worst partition, time at most 2 s" in words
    rebalances, commits, behind = pictures_of(made)["group-1-curves"]["rows"]
    assert rebalances["marks"].replace(".", "") == "aaaa"
    assert commits["line"] == [[each + 0.5, 60] for each in range(60)]
    assert behind["line"] == [[0.5, 0], [120.5, 2_000]]


@pytest.mark.parametrize("minutes", [3, 20, 90, 141, 600, 6_000])
def test_commits_a_minute_are_right_at_every_length_of_a_log(minutes):
    """A step of the picture is a part of a minute, or some."""
    told = [
        {"group": "g", "topic": "t", "topic_partition": 0, "minute": START + each * 60_000}
        | {"commits": 1_500}
        for each in range(minutes)
    ]
    rows = [{"started": START + each} for each in (0, 60_000 * (minutes - 1))]
    tables = rounds_of(*rows) | {"commit_minutes": table_of(TABLES["commit_minutes"].schema, told)}
    made = render(tables, about())
    [_, commits] = pictures_of(made)["group-1-curves"]["rows"]
    rates = [rate for _, rate in commits["line"]]
    assert {round(each) for each in rates[:-1]} == {1_500}
    assert rates[-1] <= 1_500.1
    assert "at most 1,500" in texts_of(made, "group-1-curves")


def test_marks_say_the_usual_cause_and_how_many():
    rows = [{"started": START + 3_600_000 * hour} for hour in (0, 3, 3, 3, 3, 3, 3, 3, 3)]
    rows[1] |= {"cause": "member_left"}
    [lane] = pictures_of(render(rounds_of(*rows), about()))["timeline"]["rows"]
    assert lane["marks"].replace(".", "") == "aq"  # few, and many


def test_columns_are_stacked_by_cause():
    left = {"cause": "member_left", "started": START}
    made = render(rounds_of({"started": START}, left, left), about())
    assert pictures_of(made)["rate"]["rows"][0]["columns"] == [
        [0, 0.9, "p0", 0, 1],
        [0, 0.9, "p3", 1, 3],
    ]
    assert "By cause: member left 2, no heartbeat in time 1." in texts_of(made, "rate")


def test_findings_of_a_part_of_the_time_are_beside_the_columns(page):
    told = texts_of(page, "rate")
    assert "finding 3 billing" in told
    assert "finding 1 payments" not in told  # all the time
    assert "coordinator loaded" in told


def test_findings_with_one_cause_are_one_card(sample):
    usual = {"severity": "high", "source": "events", "confidence": 1.0, "question": "storms"}
    static = {"config_key": "group.instance.id", "proposed": "one for each member"}
    rows = [
        usual | static | {"group": "g", "sentence": "It storms."},
        usual | {"group": "g", "sentence": "It is not stable.", "question": "not_stable"},
        usual | {"group": "h", "sentence": "Another group."},
        usual | {"group": "g", "sentence": "A zombie.", "question": "zombies"},
    ]
    made = render({"findings": table_of(sample["findings"].schema, rows)}, about())
    assert [made.count(f'id="finding-{number}"') for number in range(1, 6)] == [1, 1, 1, 1, 0]
    cards = [each.partition("</li>")[0] for each in made.split('<li id="finding-')[1:]]
    assert [("It is not stable." in each, "A zombie." in each) for each in cards] == [
        (True, False),
        (False, False),
        (False, True),
    ]
    assert "Also finding 2, ▲ high: It is not stable." in made


def test_what_if_marks_the_setting_of_today(sample):
    made = render({"what_if": sample["what_if"]}, about())
    told = texts_of(made, "what-if-1")
    assert (
        "billing today (as it was): 312 rebalances, not stable 31 min 12 s; least (static" in told
    )
    pictures = pictures_of(made)
    assert sum(len(each.get("rings", ())) for each in pictures["what-if-2"]["rows"]) == 3
    assert "until a lost member is noticed 6 s to 2 min" in texts_of(made, "what-if-2")
    assert "Assumed: Clients pause when they did." in texts_of(made, "what-if-2")


def test_a_group_whose_replay_does_not_match_is_named_and_not_drawn(sample):
    off = {"matches": False, "recorded_rounds": 1, "recorded_not_stable_ms": 2_000}
    rows = sample["what_if"].to_pylist()
    told = [row | off if row["group"] == "billing" else row for row in rows]
    made = render({"what_if": table_of(sample["what_if"].schema, told)}, about())
    sentence = (
        "billing is left out: replayed as it was, it has 312 rebalances where 1 was recorded, "
        "31 min 12 s not stable where it was 2 s."
    )
    for number in (1, 2):
        text = texts_of(made, f"what-if-{number}")
        assert sentence in text
        assert "billing today" not in text
    assert "payments today" in texts_of(made, "what-if-1")
    assert "is left out" not in render({"what_if": sample["what_if"]}, about())


def test_no_replay_that_matches_is_told_without_a_picture(sample):
    rows = [row | {"matches": False} for row in sample["what_if"].to_pylist()]
    made = render({"what_if": table_of(sample["what_if"].schema, rows)}, about())
    assert "No replay is near enough to the log." in texts_of(made, "what-if-1")
    assert "what-if-2" not in made


# -- writing ---------------------------------------------------------------------------------------


def test_a_report_is_written_as_a_whole(tmp_path):
    path = tmp_path / "report.html"
    write_report(path, {}, about())
    old = path.read_text(encoding="utf-8")
    write_report(path, tables(1, 1), about())
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert path.read_text(encoding="utf-8") != old
    assert [*tmp_path.iterdir()] == [path]


def test_only_a_report_or_nothing_is_replaced(tmp_path):
    path = tmp_path / "thesis.html"
    path.write_text("years of work")
    with pytest.raises(AnalyticsError, match="exists and is not a report: name another file"):
        write_report(path, {}, about())
    assert path.read_text() == "years of work"
    path.write_text("")
    write_report(path, {}, about())
    assert path.stat().st_size


def test_a_link_to_a_report_stays_one(tmp_path):
    link, path = tmp_path / "latest.html", tmp_path / "report.html"
    link.symlink_to(path)
    write_report(link, {}, about())
    assert link.is_symlink()
    assert path.is_file()


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (".", "is a folder: give --report the name of a file in it"),
        ("no/report.html", "not a folder: create it, or write elsewhere"),
        ("file/report.html", "not a folder: create it, or write elsewhere"),
        ("file", "file exists and is not a report: name another file"),
        ("a" * 300, "cannot be written: File name too long"),
        ("/dev/null", "is not a regular file: write the report elsewhere"),
    ],
)
def test_a_bad_place_for_a_report_is_one_line(tmp_path, place, words):
    (tmp_path / "file").write_text("x")
    with pytest.raises(AnalyticsError, match=words) as caught:
        write_report(tmp_path / place, {}, about())
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
