"""What is inferred beside our own server, which stores causes as well: the same, or unknown."""

import json
import signal
import subprocess
from collections.abc import Iterator
from io import StringIO

import pytest

from groupkeeper.history.rounds import Folding, Round
from groupkeeper.observe import logs
from tests.cli.test_why_process import leave, settle, wait_for, watching, why
from tests.support.apps import GROUP
from tests.support.process import ROOT, Process, Ready
from tests.support.served import Served
from tests.support.situations import SITUATIONS, Situation
from tests.support.stored_events import stored
from tests.support.wire import connect
from tests.support.written_log import rounds_of, told_of

INDISTINCT = {("rejoined_after_load", "leader_rejoined")}
"""Stored and inferred: Kafka's coordinator does not tell these apart."""


def codes(found: list[Round]) -> dict[int, str]:
    return {each.generation: (each.cause or {})["code"] for each in found}


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: each.title)
def test_an_inferred_cause_is_the_stored_one_or_unknown(situation: Situation) -> None:
    """The members of these situations do not commit, so few ends of memberships can be told."""
    logs.configure(StringIO())
    served = Served("group.initial.rebalance.delay.ms=3000", "auto.create.topics.enable=true")
    try:
        situation.play(served)
        events = stored(served, GROUP)
        log = served.log(GROUP)
        data = b"".join(log.batches(log.start_offset))
    finally:
        served.close()
    folding = Folding()
    entries = [entry for event in events for entry in folding.add(event)]
    truth = codes([each for each in entries if isinstance(each, Round)])
    found = codes(rounds_of(told_of(data, GROUP)))
    assert found.keys() == truth.keys()
    for generation, code in found.items():
        told = truth[generation]
        assert code in (told, "unknown") or (told, code) in INDISTINCT


# -- a server that stores no events ----------------------------------------------------------------


@pytest.fixture
def ready() -> Iterator[Ready]:
    settings = ("--set", "group.events.enabled=false")
    with Process("--dev", "--memory", "--http", "127.0.0.1:0", *settings) as process:
        yield process.ready()


def test_the_records_of_a_server_are_read(ready: Ready) -> None:
    client = connect(ready.kafka)
    leave(client, settle(client))
    ran = subprocess.run(why(ready, "--json"), capture_output=True, text=True, cwd=ROOT, check=True)
    client.close()
    *_, first, last, now = map(json.loads, ran.stdout.splitlines())
    assert (first["cause"]["code"], first["outcome"]) == ("member_joined", "completed")
    assert (last["cause"]["code"], last["outcome"]) == ("member_left", "emptied")
    assert (last["source"], last["confidence"]) == ("log", 0.97)
    assert (now["kind"], now["state"]) == ("live", "Empty")
    switched_off, inferred = ran.stderr.splitlines()
    assert "group.events.enabled=true" in switched_off
    assert "causes are inferred from __consumer_offsets" in inferred


def test_a_round_is_shown_when_its_record_appears(ready: Ready) -> None:
    client = connect(ready.kafka)
    member_id = settle(client)
    with watching(ready) as (process, lines):
        assert wait_for(lines, kind="round")["cause"]["code"] == "member_joined"
        wait_for(lines, kind="live")
        leave(client, member_id)
        assert wait_for(lines, kind="round")["outcome"] == "emptied"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    client.close()
