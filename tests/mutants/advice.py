"""The mutants of advice: settings that clients do not have, or that would have cost more.

As in `catalogue`, one that no test notices is a missing test.
"""

from tests.mutants.mutant import Mutant

_GATE = "tests/why/test_gate.py::"
_UNREAD = "tests/history/test_unread.py::"
GATE = "groupkeeper/why/gate.py"
PROPOSALS = "groupkeeper/why/proposals.py"
SETTINGS = "groupkeeper/why/client_settings.py"
UNREAD = "groupkeeper/history/unread.py"
_COSTS = _GATE + "test_a_change_that_costs_as_much_or_an_unknown_amount_is_refused"
_LACKS = _GATE + "test_a_setting_that_members_do_not_have_is_refused"

ADVICE_MUTANTS = (
    Mutant(
        "a change that costs as much passes",
        GATE,
        "    if then_ms < now_ms * WORTH and now_ms - then_ms >= LEAST_SAVED_MS:\n",
        "    if then_ms <= now_ms:\n",
        (_COSTS,),
    ),
    Mutant(
        "a change of unknown cost passes",
        GATE,
        '        return "what it would save is not known"\n',
        '        return ""\n',
        (_COSTS,),
    ),
    Mutant(
        "one free setting frees those beside it",
        GATE,
        "    if all(key in FREE for key, _ in change.settings):\n",
        "    if any(key in FREE for key, _ in change.settings):\n",
        (_GATE + "test_settings_that_keep_nothing_from_being_read_need_no_cost",),
    ),
    Mutant(
        "protocol type not asked",
        GATE,
        "        if why := lacking(key, audience.protocol_type, audience.protocol):\n",
        "        if why := lacking(key, CONSUMER, audience.protocol):\n",
        (_LACKS,),
    ),
    Mutant(
        "client that lacks a setting not asked",
        GATE,
        "            if key in client.lacks or ",
        "            if ",
        (_LACKS,),
    ),
    Mutant(
        "assignor proposed to unknown clients",
        GATE,
        "        if audience.has_unknown and key in (STRATEGY, POLL_RECORDS):\n",
        "        if audience.has_unknown and key == POLL_RECORDS:\n",
        (_LACKS,),
    ),
    Mutant(
        "librdkafka told to use a session above its poll interval",
        GATE,
        "            known.setdefault(POLL_INTERVAL, wanted)\n",
        "            pass\n",
        (_GATE + "test_librdkafka_does_not_start_with_a_session_longer_than_its_poll_interval",),
    ),
    Mutant(
        "limit of the coordinator not named",
        GATE,
        "            first = {LARGEST_SESSION: wanted}\n",
        "            first = {}\n",
        (_GATE + "test_the_limits_of_the_coordinator_come_first",),
    ),
    Mutant(
        "procedure not named",
        GATE,
        "{_procedure(settings)}{_gain(change)}.{_price(",
        "{_gain(change)}.{_price(",
        (_GATE + "test_a_change_that_would_have_cost_less_passes_with_procedure_and_figures",),
    ),
    Mutant(
        "absence of static members not counted",
        PROPOSALS,
        "found.absent_ms + found.gone * session_ms",
        "found.gone * session_ms",
        (_GATE + "test_scaling_in_for_eight_minutes_is_not_worth_an_instance_id",),
    ),
    Mutant(
        "name of the protocol taken for what members did",
        UNREAD,
        "    if current.kept is not None:\n        return current.kept\n",
        "",
        (_UNREAD + "test_what_members_said_to_own_counts_more_than_the_name_of_the_protocol",),
    ),
    Mutant(
        "dead owner not counted until its session ends",
        UNREAD,
        "max(0, end_ms - heard_ms(each))",
        'max(0, end_ms - each["at_ms"])',
        (
            _UNREAD
            + "test_a_removed_member_is_unread_from_its_last_request_others_from_their_rejoin",
        ),
    ),
    Mutant(
        "Java's assignor spelled as librdkafka's",
        SETTINGS,
        'cooperative="org.apache.kafka.clients.consumer.CooperativeStickyAssignor"',
        "cooperative=COOPERATIVE",
        (_GATE + "test_an_assignor_has_the_name_of_each_client_and_takes_two_rolling_restarts",),
    ),
)
