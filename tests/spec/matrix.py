"""Which behaviour of a server is tested with which wire protocol: docs/protocols.md, from the tests' own parameters.

`python -m tests.spec.matrix` writes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from metrobench.endpoints.registry import PROTOCOLS, fit
from tests.servers.json_peers import PEERS

PAGE = Path(__file__).parents[2] / "docs" / "protocols.md"
WIRE = tuple(f"tests.spec.test_{name}_wire" for name in ("json", "binary", "http", "hostile"))
"""Modules whose tests all stand in the matrix."""
PARAMETERS = ("name", "protocol")
"""Parameters that name a protocol."""
SEGMENTS = "vllm-realtime/segments"
ROWS = tuple(row for name in PROTOCOLS for row in ((name, SEGMENTS) if name == "vllm-realtime" else (name,)))
TURNS = tuple(row for row in ROWS if row in PEERS and PEERS[row].frame_class == "D")
FRAMED = tuple(row for row in ROWS if row not in (*TURNS, SEGMENTS))

_J, _B, _R, _H, _L = (f"spec.test_{name}_wire::" for name in ("json", "binary", "http", "hostile", "load"))
_JSON, _KYUTAI, _MOSHI, _OWN = (
    f"endpoints.test_{name}::" for name in ("json_protocols", "kyutai", "moshi", "realtime")
)
_IN_TIME, _LATE, _ENDS = (
    _J + "test_a_server_in_time_is_met_whatever_else_it_says",
    _J + "test_lateness_and_jitter_are_as_long_as_they_are",
    _J + "test_every_way_to_end_has_its_name",
)
_REQUESTS, _REQUESTS_LATE, _REQUESTS_END = (
    _R + "test_a_server_in_time_answers_every_frame",
    _R + "test_lateness_and_jitter_are_as_long_as_they_are",
    _R + "test_every_way_to_end_has_its_name",
)
_CAPACITY = "spec.test_capacity_wire::test_the_interval_holds_the_true_capacity"
OF_ONE = {
    _J + "test_vllm_s_silence_is_an_answer_without_words": "vllm-realtime",
    _J + "test_omni_s_speech_is_marked": "vllm-omni",
    _H + "test_of_500_sessions_each_ends_in_exactly_one_state": "sglang-omni",
    _CAPACITY: "realtime",
}
"""Protocols of tests that have no parameter for it. Those of some modules are all of one."""
OF_MODULE = {
    "load_wire": "realtime",
    "http_wire": "sglang-sessions",
    "realtime": "realtime",
    "kyutai": "kyutai-stt",
    "moshi": "moshi",
}

NO_CLOCK = "no frame clock: the peer answers a turn or a segment, and has no queue of frames that could grow"
COUNTED = "answers have neither index nor time: a second one counts for the next frame"
NOT_SAID = "no such message on this wire"
NO_SOUND = "text, or one answer a frame: nothing is played that could break off"
AS_BETA = "its answers are those of openai-beta, read by the same lines"
GOODBYE = "read like that of the tested one, by `events.goodbye`; the peer says it when it is asked to"
WITH_CONTENT = ("realtime", "vllm-realtime", "sglang-sessions")
ANY_CONTENT = "the wire does not tell an answer without content from one with it"


@dataclass(frozen=True)
class Behaviour:
    """A column."""

    title: str
    finding: str
    """What metrobench must say of it."""
    tests: tuple[str, ...]
    """FOLDER.MODULE::FUNCTION under tests/."""
    cannot: dict[str, str] = field(default_factory=dict)
    """Why a protocol cannot show it; stands over the tests."""
    elsewhere: dict[str, str] = field(default_factory=dict)
    """What stands for a test with this protocol."""


BEHAVIOURS = (
    Behaviour(
        "in time",
        "no miss, no error",
        (
            _IN_TIME,
            _REQUESTS,
            _B + "test_a_server_in_time_answers_every_frame",
            _L + "test_a_server_in_time_has_no_misses_and_every_frame_its_row",
            _J + "test_omni_s_speech_is_marked",
        ),
    ),
    Behaviour(
        "late frame",
        "the latency that it has",
        (
            _LATE,
            _REQUESTS_LATE,
            _B + "test_constant_lateness_is_its_length",
            _L + "test_answers_200_ms_late_read_200_ms",
            _L + "test_one_late_answer_is_one_missed_frame_at_its_place",
        ),
    ),
    Behaviour(
        "jitter",
        "in the frames that have it",
        (_LATE, _REQUESTS_LATE, _B + "test_jitter_is_seen_in_the_frames_that_have_it"),
        elsewhere={"realtime": "single late frames show it: the column before"},
    ),
    Behaviour(
        "drift",
        "latency that grows by service time less frame",
        (
            _J + "test_service_longer_than_a_frame_drifts",
            _R + "test_a_frame_is_asked_for_although_the_one_before_is_not_answered",
            _B + "test_service_longer_than_a_frame_drifts",
            _CAPACITY,
        ),
        dict.fromkeys((*TURNS, SEGMENTS), NO_CLOCK),
    ),
    Behaviour(
        "one session too many",
        "all are late",
        (
            _J + "test_one_session_more_than_fit_makes_all_of_them_late",
            _R + "test_one_session_more_than_fit_makes_all_of_them_late",
            _B + "test_one_session_more_than_fit_makes_all_of_them_late",
            _CAPACITY,
        ),
        dict.fromkeys((*TURNS, SEGMENTS), NO_CLOCK),
    ),
    Behaviour(
        "stall",
        "the frames in it are missed, no others",
        (
            _B + "test_a_stall_of_the_server_misses_the_frames_in_it_and_no_others",
            _L + "test_a_stall_is_missed_to_the_frame",
        ),
        elsewhere=dict.fromkeys(
            (*PEERS, "sglang-sessions"), "not of the wire: the schedule is the same for all protocols"
        ),
    ),
    Behaviour(
        "silence, socket open",
        "all further frames are missed, no close",
        (
            _ENDS,
            _REQUESTS_END,
            _B + "test_an_open_socket_that_falls_silent_misses_all_further_frames",
            _L + "test_a_session_that_is_no_longer_answered_misses_all_its_further_frames",
        ),
    ),
    Behaviour(
        "dropped answer",
        "one miss; where answers are counted, all that follow a frame late",
        (
            _J + "test_an_answer_left_out_is_one_miss",
            _J + "test_an_answer_left_out_of_a_count_delays_all_that_follow_by_a_frame",
            _R + "test_an_answer_left_out_delays_all_that_follow_by_a_frame",
            _B + "test_an_answer_left_out_delays_all_that_follow_by_a_frame",
            _H + "test_an_answer_left_out_and_one_given_twice_cost_one_frame",
        ),
        {
            "vllm-omni": "lossy by design: speech stands for several units, and a count goes on with the next",
            "openai-translation": "output at a media time answers all frames up to it: nothing is left out",
        },
    ),
    Behaviour(
        "answer twice",
        "the first one counts",
        (_IN_TIME, _H + "test_an_answer_left_out_and_one_given_twice_cost_one_frame"),
        dict.fromkeys(("vllm-realtime", "kyutai-stt", "moshi", "minicpm-o-demo", "sglang-sessions"), COUNTED),
    ),
    Behaviour(
        "refusal",
        "refused, in the server's words",
        (
            _ENDS,
            _REQUESTS_END,
            _B + "test_a_session_turned_away_is_refused_in_the_server_s_words",
            _L + "test_refused_sessions_are_facts_and_miss_everything",
            _H + "test_of_500_sessions_each_ends_in_exactly_one_state",
        ),
    ),
    Behaviour(
        "no place, no word",
        "refused as never accepted",
        (
            _ENDS,
            _REQUESTS_END,
            _B + "test_a_session_that_is_never_greeted_is_refused_as_queued",
            _L + "test_a_server_that_never_says_a_word_refuses_everybody",
        ),
    ),
    Behaviour(
        "slow handshake",
        "waited for",
        (
            _IN_TIME,
            _REQUESTS,
            _B + "test_a_slow_greeting_is_waited_for",
            _L + "test_slow_handshakes_within_the_limit_are_no_refusal",
        ),
    ),
    Behaviour(
        "close in the middle",
        "its code and reason, where it has one; the session's further frames are missed",
        (
            _ENDS,
            _REQUESTS_END,
            _B + "test_a_close_is_recorded_with_its_code",
            _L + "test_a_closed_session_keeps_missing_and_its_close_is_recorded",
        ),
    ),
    Behaviour(
        "reset",
        "1006",
        (
            _ENDS,
            _REQUESTS_END,
            _B + "test_a_reset_connection_is_1006",
            _L + "test_a_broken_connection_is_a_closed_session",
        ),
    ),
    Behaviour(
        "goodbye unasked",
        "the session is over, and why",
        (_J + "test_a_goodbye_that_nobody_asked_for_ends_the_session",),
        dict.fromkeys(
            ("realtime", "kyutai-stt", "moshi", "openai", "openai-beta", "azure", "unmute", "sglang-sessions"), NOT_SAID
        ),
        dict.fromkeys(("qwen", "vllm-omni", "sglang-omni", "openai-translation", "minicpm-o-demo"), GOODBYE),
    ),
    Behaviour(
        "error message",
        "counted; one that ends the session ends it in its words",
        (
            _ENDS,
            _REQUESTS_END,
            _B + "test_an_error_message_ends_the_session_with_its_words",
            _L + "test_an_error_that_ends_nothing_is_counted",
            _L + "test_a_fatal_error_ends_the_session_at_once",
        ),
    ),
    Behaviour(
        "empty answer",
        "an answer without content, or a failed one: a miss",
        (
            _J + "test_vllm_s_silence_is_an_answer_without_words",
            _J + "test_an_answer_that_failed_is_a_missed_turn_and_an_error",
            _R + "test_an_answer_without_tokens_is_hollow",
            _L + "test_hollow_answers_are_in_time_and_without_content",
        ),
        dict.fromkeys((*(row for row in FRAMED if row not in WITH_CONTENT), SEGMENTS), ANY_CONTENT),
        dict.fromkeys(("azure", "qwen"), AS_BETA),
    ),
    Behaviour(
        "speech too slow to play",
        "a broken answer: a miss",
        (_J + "test_speech_that_comes_too_slowly_to_be_played_is_marked",),
        dict.fromkeys((*FRAMED, SEGMENTS), NO_SOUND),
        dict.fromkeys(("azure", "qwen"), AS_BETA),
    ),
    Behaviour(
        "unknown events and fields",
        "nothing",
        (
            _IN_TIME,
            _REQUESTS,
            _KYUTAI + "test_kinds",
            _MOSHI + "test_other_kinds_have_no_weight",
            _OWN + "test_kinds",
        ),
    ),
    Behaviour(
        "message in fragments",
        "nothing",
        (
            _IN_TIME,
            _REQUESTS,
            _B + "test_a_server_in_time_answers_every_frame",
            _L + "test_fragmented_answers_are_read",
        ),
    ),
    Behaviour(
        "garbage",
        "an error; the session goes on",
        (
            _H + "test_garbage_is_an_error_and_half_a_message_is_silence",
            _REQUESTS_END,
            "endpoints.test_fuzz::test_any_messages_in_any_order_are_observed",
            "endpoints.test_fuzz::test_a_giant_message_is_one_more_that_is_not_understood",
        ),
    ),
    Behaviour(
        "half a message",
        "silence",
        (_H + "test_garbage_is_an_error_and_half_a_message_is_silence", _R + "test_half_a_response_is_silence"),
    ),
    Behaviour(
        "closed loop",
        "as many frames as are served",
        (
            _B + "test_closed_loop_counts_the_frames_served",
            _R + "test_closed_loop_counts_the_frames_served",
            _L + "test_closed_loop_serves_what_the_server_can",
        ),
        elsewhere=dict.fromkeys(PEERS, "not of the wire: the loop is the same for all protocols"),
    ),
)


def module_of(test: str) -> ModuleType:
    """The module that a test of the table is in."""
    return import_module("tests." + test.partition("::")[0])


def function_of(test: str) -> Any:
    """The test itself; AttributeError where there is none."""
    return getattr(module_of(test), test.partition("::")[2])


def protocols_of(test: str) -> tuple[str, ...]:
    """Protocols that a test runs with."""
    marks = [*getattr(function_of(test), "pytestmark", []), *_listed(getattr(module_of(test), "pytestmark", []))]
    found = tuple(value for mark in marks if mark.name == "parametrize" for value in _values(mark))
    if found:
        return found
    own = OF_ONE.get(test) or OF_MODULE.get(test.partition("::")[0].rpartition("test_")[2])
    assert own, f"{test} names no protocol: parametrize it by `name` or `protocol`, or enter it in OF_ONE"
    return (own,)


def _listed(marks: Any) -> list[Any]:
    each = marks if isinstance(marks, list) else [marks]
    return [getattr(mark, "mark", mark) for mark in each]


def _values(mark: Any) -> Iterator[str]:
    if mark.args[0] in PARAMETERS:
        for value in mark.args[1]:
            yield str(value.values[0] if hasattr(value, "values") else value)


def cell(behaviour: Behaviour, row: str) -> tuple[str, tuple[str, ...]]:
    """A word, and what it stands on: tests of a behaviour with a protocol, or why there is none. Empty: neither."""
    for word, reasons in (("cannot show", behaviour.cannot), ("see", behaviour.elsewhere)):
        if row in reasons:
            return word, (reasons[row],)
    tests = tuple(f"`{_path(test)}`" for test in behaviour.tests if row in protocols_of(test))
    return ("tested" if tests else ""), tests


def render() -> str:
    """The page."""
    notes: dict[str, str] = {}
    lines = [HEAD, "| protocol | " + " | ".join(each.title for each in BEHAVIOURS) + " |"]
    lines.append("|---" * (len(BEHAVIOURS) + 1) + "|")
    for row in ROWS:
        shown = [_shown(*cell(behaviour, row), notes) for behaviour in BEHAVIOURS]
        lines.append(f"| `{row}` | " + " | ".join(shown) + " |")
    lines += ["", *(f"- **{mark}** {words}" for words, mark in notes.items()), "", FINDINGS]
    lines += [f"| {each.title} | {each.finding} |" for each in BEHAVIOURS]
    return "\n".join([*lines, "", CLASSES, *(_stream(name) for name in PROTOCOLS), ""])


def _shown(word: str, reasons: tuple[str, ...], notes: dict[str, str]) -> str:
    """A cell: its word, and the numbers of the notes that say it in full."""
    return " ".join([word, *(notes.setdefault(reason, str(len(notes) + 1)) for reason in reasons)])


def _path(test: str) -> str:
    module, _, function = test.partition("::")
    return f"tests/{module.replace('.', '/')}.py::{function}"


def _stream(name: str) -> str:
    own = {"moshi": (0.08, 24_000), "kyutai-stt": (0.08, 24_000), "vllm-realtime": (0.08, 16_000)}
    stream = fit(name, *own.get(name, (1.0, 16_000)))
    said = f"{stream.unit * 1000:g} ms", f"{stream.first_ready * 1000:g} ms", f"{stream.sample_rate:,} Hz"
    return f"| `{name}` | {stream.frame_class.title} | " + " | ".join(said) + " |"


HEAD = """# Wire protocols

`metrobench run --endpoint URL --protocol NAME`; `--protocol auto` finds the name out. Yours is not among them?
[Write it](own-protocol.md): about forty lines in a package of your own. This page is written by
`python -m tests.spec.matrix` from the tests themselves: a test fails when this page says something else than they do.

## What is tested with scripted servers

One row a protocol, one column a behaviour of its server. The numbers name the tests, or say why this wire cannot show
the behaviour, or what stands for a test with it. Real servers of five protocols are run besides (`make test-peers`,
`tests/peers/README.md`).
"""
FINDINGS = """## What is found

| behaviour | finding |
|---|---|"""
CLASSES = """## How each cuts the audio

With `--model` of 1 s frames at 16 kHz where the protocol takes any; frames of `kyutai-stt`, `moshi` and
`vllm-realtime` (Voxtral) are their own.

| protocol | class | frame | first answer needs | audio |
|---|---|---|---|---|"""


if __name__ == "__main__":
    PAGE.write_text(render())
