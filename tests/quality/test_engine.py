"""Real engines: a tiny random model through the plugin, against a plain forward pass under the plugin's mask."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from metrobench.kvwindow import Window, parse
from metrobench.policy import parse_policy
from metrobench.quality import arms, checks
from metrobench.quality.engines import Engine, Engines, EngineSpec
from metrobench.quality.probe import Known, make_plan
from metrobench.quality.questions import QUESTIONS
from tests.cli.command import assert_plain_error, in_process
from tests.kvwindow import models as zoo

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]  # a machine under load takes minutes

BLOCK, LENGTH, SESSIONS = 32, 2048, 3
TOLERANCE = 1e-3
"""Of a log-probability in fp32, nats."""


def tokenizer(folder: Path) -> None:
    """A byte for a token, as far as the tiny models' 256 go."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(BPE(vocab={letter: place for place, letter in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.save(str(folder / "tokenizer.json"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("vllm")
    folder = Path(zoo.make("llama", tmp_path_factory.mktemp("models")))
    tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    pytest.importorskip("vllm")
    with Engines(tmp_path_factory.mktemp("logs") / "engines.log") as started:
        yield started


def start(engines: Engines, folder: Path, policy: str) -> Engine:
    return engines.start(EngineSpec(str(folder), policy, SESSIONS, LENGTH, BLOCK, "float32", 1))


def nll(folder: Path, tokens: list[int], window: Window | None) -> list[float]:
    """Of each token but the first, by a plain eager forward pass."""
    rows = zoo.log_probabilities(zoo.reference(str(folder)), tokens, window)
    return [-float(rows[place, token]) for place, token in enumerate(tokens[1:])]


def test_likelihoods_through_the_plugin_are_those_of_its_mask(tiny: Path, engines: Engines) -> None:
    engine = start(engines, tiny, "window:128+32")
    letters = random.Random(3)
    text = "".join(chr(letters.randrange(33, 126)) for _ in range(700))
    found = engine.perplexity(text, 700)
    engine.kill()
    from tokenizers import Tokenizer

    tokens = Tokenizer.from_file(str(tiny / "tokenizer.json")).encode(text).ids
    expected = nll(tiny, tokens, parse("128+32").on(BLOCK))
    assert len(found) == len(tokens) - 1
    assert max(abs(a - b) for a, b in zip(found, expected, strict=True)) < TOLERANCE
    unbounded = nll(tiny, tokens, None)
    assert max(abs(a - b) for a, b in zip(found, unbounded, strict=True)) > 100 * TOLERANCE


def test_every_policy_speaks_alike_until_it_loses_a_token_and_no_longer(tiny: Path, engines: Engines) -> None:
    known = [Known(question.text, list(question.aliases), [70, 71, 72], 3) for question in QUESTIONS[:20]]
    plan = make_plan(known, SESSIONS, 8, 12, 0.0, 1)
    said = {}
    for policy in ("unbounded", "window:640", "window:640+32"):
        engine = start(engines, tiny, policy)
        said[policy] = engine.converse("free", plan, lambda _: None)
        engine.kill()
    full = said.pop("unbounded")
    evictions = {
        policy: (replies, arms.first_eviction(parse_policy(policy), BLOCK) or 0) for policy, replies in said.items()
    }
    held = checks.alike(full, evictions)
    assert held.state == checks.HELD, held.seen
    late = {policy: (replies, LENGTH) for policy, replies in said.items()}
    assert checks.alike(full, late).state == checks.BROKEN


def test_a_model_that_knows_nothing_proves_nothing(
    tiny: Path, engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command in this process, whose fork server has loaded vLLM for the tests above."""
    monkeypatch.setattr("metrobench.quality.engines._stop_forkserver", lambda: None)
    done = in_process("quality", "--model", str(tiny), "--no-rerender", "--sessions", "2", "--json", cwd=tmp_path)
    assert_plain_error(done, 3, "this model answers 0 of", "nothing can be lost")
    [folder] = (tmp_path / "reports").iterdir()
    assert (folder / "index.html").is_file()
    shown = in_process("report", str(folder), cwd=tmp_path)
    assert shown.code == 0
    assert "failed" in shown.out


def test_an_engine_that_cannot_start_says_why(tmp_path: Path, engines: Engines) -> None:
    from metrobench.errors import UnreachableError

    with pytest.raises(UnreachableError, match="the engine failed"):
        start(engines, tmp_path, "unbounded").perplexity("abc", 3)


def test_a_recycled_session_says_what_its_last_window_alone_says(tiny: Path, engines: Engines) -> None:
    """The context is then the last W tokens, from position 0: likelihoods are those of that text alone."""
    engine = start(engines, tiny, "recycle:256")
    letters = random.Random(5)
    text = "".join(chr(letters.randrange(33, 126)) for _ in range(900))
    found = engine.perplexity(text, 900)
    engine.kill()
    from tokenizers import Tokenizer

    tokens = Tokenizer.from_file(str(tiny / "tokenizer.json")).encode(text).ids
    expected = nll(tiny, tokens[:512], None)
    expected += nll(tiny, tokens[256:768], None)[255:]
    expected += nll(tiny, tokens[512:900], None)[255:]
    assert len(found) == len(tokens) - 1
    assert max(abs(a - b) for a, b in zip(found, expected, strict=True)) < TOLERANCE


def test_a_recycled_arm_speaks_as_unbounded_kv_until_it_may_begin_again(tiny: Path, engines: Engines) -> None:
    known = [Known(question.text, list(question.aliases), [70, 71, 72], 3) for question in QUESTIONS[:20]]
    plan = make_plan(known, SESSIONS, 8, 12, 0.0, 1)
    said = {}
    for policy in ("unbounded", "recycle:640"):
        engine = start(engines, tiny, policy)
        said[policy] = engine.converse("free", plan, lambda _: None)
        engine.kill()
    eviction = arms.first_eviction(parse_policy("recycle:640"), BLOCK) or 0
    held = checks.alike(said["unbounded"], {"recycle": (said["recycle:640"], eviction)})
    assert held.state == checks.HELD, held.seen
    assert [reply.age for reply in said["recycle:640"]] == [reply.age for reply in said["unbounded"]]


def test_engines_leave_no_file_behind(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Engines(tmp_path / "log") as started:
        assert start(started, tiny, "unbounded").perplexity("a few words", 5)
        [folder] = tmp_path.glob("metrobench-quality-*")
        assert list(folder.iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
