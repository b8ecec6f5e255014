"""Spoken questions to endpoints whose truth is known: right, wrong, none and late are told apart, without a clock."""

from __future__ import annotations

import json

import numpy as np
import pybase64
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from metrobench.corpus.manifest import load_manifest, speaks
from metrobench.endpoints.registry import PROTOCOLS, make_endpoint
from metrobench.errors import UsageError
from metrobench.load.tape import Entry, Head, Tape
from metrobench.quality.analysis import KEEPS, LOSES, Quality
from metrobench.quality.checks import BROKEN
from metrobench.quality.spoken import transcribe
from metrobench.quality.spoken.answer import LATE, NONE, RIGHT, WRONG, Piece, Reply, judge
from metrobench.quality.spoken.findings import analyse
from metrobench.quality.spoken.hear import replies
from metrobench.quality.spoken.plan import PATIENCE, aliases_of, lay_out, long_session, timetable, usable
from metrobench.resources import data_folder
from metrobench.units import CHUNK

from .quiz import DEADLINE, POOL, delayed, delta, endpoint, half, heard, right, silent, stages, tape, wrong_from

SESSION = lay_out(POOL[:6], DEADLINE)


def verdicts(found: list[Reply]) -> list[str]:
    return [reply.verdict for reply in found]


def broken(found: Quality) -> list[str]:
    return [check.name for check in found.checks if check.state == BROKEN]


def test_an_endpoint_that_is_always_right_keeps_answering() -> None:
    found = analyse(*stages(right), DEADLINE)
    assert found.believed, found.checks
    assert found.findings[1].verdict == KEEPS
    assert found.findings[1].late is not None
    assert found.findings[1].late.value == 1.0


def test_an_endpoint_that_is_wrong_from_an_age_on_stops_answering_there() -> None:
    found = analyse(*stages(wrong_from(60.0)), DEADLINE)
    assert found.believed, found.checks
    assert found.findings[1].verdict == LOSES
    by_age = {band.age: band.accuracy.value for band in found.findings[1].bands if band.accuracy}
    assert by_age == {"0-30 s": 1.0, "30-60 s": 1.0, "1-2 min": 0.0, "2-4 min": 0.0, "4-8 min": 0.0}


def test_silence_is_never_wrong() -> None:
    assert verdicts(heard(SESSION, silent)) == [NONE] * 6


@pytest.mark.parametrize("seconds", [DEADLINE + 0.5, 1.9 * DEADLINE])
def test_a_late_answer_is_never_wrong(seconds: float) -> None:
    assert verdicts(heard(SESSION, delayed(seconds))) == [LATE] * 6


@given(st.floats(PATIENCE * DEADLINE + 3.0, 5 * PATIENCE * DEADLINE))
def test_an_answer_that_comes_after_later_questions_is_late_and_blames_none_of_them(seconds: float) -> None:
    found = verdicts(heard(SESSION, delayed(seconds)))
    assert set(found) <= {LATE, NONE}
    assert found[0] == LATE


def test_half_of_the_answers_missing_says_nothing_against_the_other_half() -> None:
    found = analyse(*stages(half(right)), DEADLINE)
    long = found.findings[1]
    assert long.late is not None
    assert long.late.value == 1.0
    assert {(band.asked.wrong, band.asked.late) for band in long.bands if band.asked} == {(0, 0)}
    assert sum(band.asked.none for band in long.bands if band.asked) > 50


def test_wrong_answers_are_found_among_missing_ones() -> None:
    long = analyse(*stages(half(wrong_from(60.0))), DEADLINE).findings[1]
    assert long.verdict == LOSES
    assert long.late is not None
    assert long.late.value == 0.0


def test_where_old_sessions_are_hardly_answered_nothing_is_said_of_their_answers() -> None:
    found = analyse(*stages(lambda question, age, place: right(question, age, place) if age < 60.0 else None), DEADLINE)
    assert broken(found) == ["old sessions are answered in time"]
    assert not found.believed
    assert found.claims == []


def test_few_sessions_are_inconclusive() -> None:
    assert broken(analyse(*stages(right, sessions=4), DEADLINE)) == ["enough sessions"]


def test_questions_of_a_session_that_ended_are_not_asked() -> None:
    over = SESSION.ends[2] + DEADLINE + 0.1
    found = replies(SESSION, 0, tape(SESSION, right), endpoint(), over, DEADLINE, lambda pcm, rate: "")
    assert verdicts(found) == [RIGHT] * 3


def test_a_session_that_ends_before_a_deadline_leaves_that_question_out_though_it_was_answered() -> None:
    """Right answers come early: to keep them and drop the others would flatter who goes away."""
    over = SESSION.ends[2] + DEADLINE - 0.1
    found = replies(SESSION, 0, tape(SESSION, right), endpoint(), over, DEADLINE, lambda pcm, rate: "")
    assert verdicts(found) == [RIGHT] * 2


def test_sessions_that_the_endpoint_ended_are_counted_and_believed_nothing() -> None:
    choice, fresh, long = stages(right)
    cut = replace(long, replies=long.replies[:60], unasked=len(long.replies) - 60, closed=7)
    found = analyse(choice, fresh, cut, DEADLINE)
    assert "sessions stay open" in broken(found)
    seen = next(check.seen for check in found.checks if check.name == "sessions stay open")
    assert f"60 of {len(long.replies)} questions" in seen
    assert "7 of them ended by the endpoint before their time" in seen


@pytest.mark.parametrize(("share", "fault"), [(0.2, []), (0.3, ["the client kept its own time"])])
def test_a_client_that_was_late_itself_blames_nobody(share: float, fault: list[str]) -> None:
    choice, fresh, long = stages(right)
    assert broken(analyse(choice, fresh, replace(long, lateness=share * DEADLINE), DEADLINE)) == fault


def test_an_answer_counts_for_the_question_at_which_it_began() -> None:
    """A long wrong answer that runs into the next question's time is no answer to that one."""
    made = make_endpoint("openai", "ws://127.0.0.1:1/", unit=12.0, first_ready=12.0, sample_rate=24_000)
    begin, end = SESSION.ends[0] + 1.0, SESSION.ends[1] + 3.0

    def event(t: float, **fields: object) -> Entry:
        return Entry("server", t, text=json.dumps(fields))

    said = [event(begin, type="response.created")]
    said += [event(begin + 1.0, type="response.output_audio_transcript.delta", delta="Well,")]
    said += [
        event(end, type="response.output_audio_transcript.delta", delta=" no idea."),
        event(end, type="response.done"),
    ]
    found = replies(
        SESSION, 0, Tape(Head("openai", 12.0, 12.0, 24_000, False), said), made, SESSION.length, DEADLINE,
        lambda pcm, rate: "",
    )  # fmt: skip
    assert verdicts(found)[:2] == [LATE, NONE]


def spoken_answer(t: float, loud: bool) -> Entry:
    """200 ms of a tone, or of silence."""
    wave = np.sin(np.arange(4800) * 0.1) * (8000.0 if loud else 0.0)
    audio = pybase64.b64encode(wave.astype("<i2").tobytes()).decode()
    return Entry("server", t, text=json.dumps({"type": "response.output_audio.delta", "delta": audio}))


@pytest.mark.parametrize(("delay", "verdict"), [(2.0, RIGHT), (DEADLINE + 2.0, LATE)])
def test_speech_without_words_is_transcribed(delay: float, verdict: str) -> None:
    plan = lay_out(POOL[:1], DEADLINE)
    heard_by: list[tuple[int, int]] = []

    def transcribe(pcm: bytes, rate: int) -> str:
        heard_by.append((len(pcm), rate))
        return POOL[0].aliases[0]

    said = Tape(Head("realtime", 0.5, 0.5, 16_000, False), [spoken_answer(plan.ends[0] + delay, True)])
    found = replies(plan, 0, said, endpoint(), plan.length, DEADLINE, transcribe)
    assert verdicts(found) == [verdict]
    assert heard_by == [(9600, 24_000)]


def test_silent_speech_is_no_answer_and_nobody_transcribes_it() -> None:
    plan = lay_out(POOL[:1], DEADLINE)
    said = Tape(Head("realtime", 0.5, 0.5, 16_000, False), [spoken_answer(plan.ends[0] + 1.0, False)])

    def transcribe(pcm: bytes, rate: int) -> str:
        raise AssertionError

    assert verdicts(replies(plan, 0, said, endpoint(), plan.length, DEADLINE, transcribe)) == [NONE]


def test_words_are_preferred_to_speech() -> None:
    plan = lay_out(POOL[:1], DEADLINE)
    at = plan.ends[0] + 1.0
    said = Tape(Head("realtime", 0.5, 0.5, 16_000, False), [spoken_answer(at, True), delta(POOL[0].aliases[0], at)])
    assert verdicts(replies(plan, 0, said, endpoint(), plan.length, DEADLINE, lambda pcm, rate: "no")) == [RIGHT]


@given(st.lists(st.tuples(st.floats(0.0, 30.0), st.sampled_from([" the", " paris", " it", ".", " "])), max_size=40))
def test_no_answer_that_ends_after_the_deadline_is_wrong(said: list[tuple[float, str]]) -> None:
    pieces = [Piece(t, text) for t, text in sorted(said)]
    words = [piece for piece in pieces if piece.text.strip(" .")]
    verdict = judge(pieces, ["paris"], DEADLINE)
    assert (verdict == NONE) == (not words)
    if verdict == RIGHT:
        assert any("paris" in piece.text and piece.t <= DEADLINE for piece in words)
    if verdict == WRONG:
        assert words[0].t <= DEADLINE
        assert len(pieces) >= 20 or words[-1].t <= DEADLINE


@given(st.integers(0, 50), st.integers(0, 99), st.floats(1.0, 2000.0))
def test_every_question_of_a_long_session_ends_at_a_known_age(number: int, seed: int, duration: float) -> None:
    session = long_session(POOL, duration, DEADLINE, seed, number)
    place = 0
    ends = []
    for first, count in session.script:
        place += count
        if first:
            ends.append(place * CHUNK)
    assert list(session.ends) == pytest.approx(ends)
    assert session.length == pytest.approx(place * CHUNK)
    assert session.length <= duration + CHUNK * len(ends) or len(ends) == 1
    recent = [question.text for question in session.questions[: len(POOL)]]
    assert len(set(recent)) == len(recent)


@given(st.integers(1, 30), st.integers(1, 8), st.sampled_from([0.08, 0.5, 1.0, 12.0]))
def test_no_more_sessions_are_open_than_asked_for_and_all_are_heard_to_their_end(
    count: int, at_once: int, unit: float
) -> None:
    plans = [lay_out(POOL[: 1 + number % 4], 1.0) for number in range(count)]
    table = timetable(plans, at_once, unit, unit, 0.5)
    ends = table.ends(unit) + 0.5
    for come in table.arrivals:
        assert int(np.sum((np.array(table.arrivals) <= come) & (ends > come))) <= at_once
    for plan, frames in zip(plans, table.frames, strict=True):
        assert unit * frames >= plan.length - 1e-6


def test_no_question_of_the_corpus_names_its_own_answer() -> None:
    clips = [clip for clip in load_manifest(data_folder("audio_corpus")) if speaks(clip, "en")]
    asked = usable(clips)
    assert len(asked) >= 30
    for clip in asked:
        assert judge([Piece(0.0, clip.transcript)], aliases_of(clip), 1.0) == WRONG
        assert judge([Piece(0.0, "a b c")], aliases_of(clip), 1.0) == WRONG


@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if name not in ("moshi", "kyutai-stt")])
@given(payload=st.binary(max_size=60) | st.sampled_from([b'{"type":"response.output_audio.delta","delta":5}', b"[]"]))
def test_no_message_breaks_a_listener(protocol: str, payload: bytes) -> None:
    url = "http://x" if protocol == "sglang-sessions" else "ws://x"
    made = make_endpoint(protocol, url, unit=0.08, first_ready=0.08, sample_rate=24_000)
    assert made.listener()(payload).text == ""


def test_moshi_writes_beside_its_speech() -> None:
    listen = make_endpoint("moshi", "ws://x", unit=0.08, first_ready=0.16, sample_rate=24_000).listener()
    assert listen(b"\x02 caf\xc3\xa9").text == " café"
    assert listen(b"\x01OggS").text == ""
    assert listen(b"").text == ""


def test_who_answers_with_speech_alone_is_told_what_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcribe, "weights", lambda: None)
    with pytest.raises(UsageError, match="Whisper is needed") as english:
        transcribe.Transcriber("en-GB")(b"\0\0" * 1600, 16_000)
    assert "metrobench[spoken]" in english.value.hint
    with pytest.raises(UsageError, match="only English"):
        transcribe.Transcriber("es")(b"\0\0" * 1600, 16_000)
