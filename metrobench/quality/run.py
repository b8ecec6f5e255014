"""One quality probe: engines for all arms, two at a time at most, every arm's facts handed on as soon as it is done."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from metrobench.errors import NotValidError, UsageError
from metrobench.policy import KvPolicy
from metrobench.quality import arms
from metrobench.quality.analysis import ArmFacts
from metrobench.quality.arms import CHAT, FREE, RENDERED, Arm
from metrobench.quality.engines import Engine, Engines, EngineSpec
from metrobench.quality.formats import CHAT as CHAT_FORMAT
from metrobench.quality.formats import FREE as FREE_FORMAT
from metrobench.quality.probe import Known, Plan, make_plan
from metrobench.quality.questions import QUESTIONS
from metrobench.quality.search import Found, Tried, bisect, judge

POLL = 0.2
ROOM = 64
"""Tokens of a session beyond those counted."""
LEAST_POOL = 8
"""Questions without which a session cannot even begin."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is probed, and how."""

    folder: Path
    """A checkpoint with its tokenizer."""
    policies: Sequence[KvPolicy]
    """Asked for, on whole blocks."""
    controls: Sequence[KvPolicy]
    """Added."""
    block: int
    sessions: int
    questions: int
    """Of each session, at most."""
    answer: int
    """K: tokens of an answer, at most."""
    temperature: float
    seed: int
    chat: bool
    """Also in turns whose KV stays."""
    rendered: bool
    """Also with turns computed anew."""
    dtype: str
    parallel: int
    """Engines at once."""
    text: str = ""
    """Also read this, by position; as far as a session is long."""
    widths: Sequence[int] = ()
    """Search the smallest of these windows; the policies are only unbounded KV then."""
    sinks: int = 0
    """Of the second search; the first has none."""

    @property
    def window(self) -> int:
        """W of ages."""
        return min(self.widths) if self.widths else arms.unit([*self.policies, *self.controls])


@dataclass(slots=True)
class Course:
    """What the caller hears and decides while the probe is at work."""

    store: Callable[[ArmFacts], None]
    """One arm is done; may be called from any thread, one at a time."""
    show: Callable[[str], None]
    stopped: Callable[[], bool]


@dataclass(slots=True)
class Calibrated:
    """What the model knows."""

    free: list[Known]
    chat: list[Known]
    searches: list[Found] = field(default_factory=list)
    """With and without sinks, as far as they came."""


class _Run:
    def __init__(self, setting: Setting, course: Course, engines: Engines) -> None:
        self.setting, self.course, self.engines = setting, course, engines
        self.length = session_length(setting)
        self.known: Calibrated | None = None
        self._told = threading.Event()
        self._based = threading.Event()
        self._full: ArmFacts | None = None
        self._free: list[ArmFacts] = []
        self._lock = threading.Lock()
        self._places: dict[str, int] = {}

    def base(self, policy: KvPolicy) -> None:
        """The unbounded engine: calibration, its own arms, and the re-rendered turns."""
        try:
            self._base(policy)
        finally:
            self._told.set()
            self._based.set()

    def _base(self, policy: KvPolicy) -> None:
        engine = self._start(policy)
        self.course.show("asking the model what it knows")
        chat = self.setting.chat or self.setting.rendered
        try:
            free = engine.calibrate("free", QUESTIONS, self.setting.answer)
            known = engine.calibrate("chat", QUESTIONS, self.setting.answer) if chat else []
            self.known = Calibrated(free, known)
        finally:
            self._told.set()
        self._need(free, "free-running")
        self._arms(engine, policy)
        self._full = self._free[0]
        self._based.set()
        if self.setting.rendered:
            self._need(self.known.chat, "chat")
            arm = Arm(f"window:{self.setting.window}", RENDERED, control=True)
            replies = engine.re_render("chat", self._plan(self.known.chat), self.setting.window, self._seen(arm))
            self._store(ArmFacts(arm, replies, []))
        engine.kill()

    def bounded(self, policy: KvPolicy) -> None:
        """One bounded engine, once it is known what to ask."""
        self._told.wait()
        if self.known is not None and len(self.known.free) >= LEAST_POOL:
            engine = self._start(policy)
            self._arms(engine, policy)
            engine.kill()

    def search(self, sinks: int) -> None:
        """The smallest window that costs no answers, once it is known what unbounded KV answers."""
        self._based.wait()
        if self.known is None or self._full is None:
            return
        known, full = self.known, self._full

        def probe(policy: KvPolicy) -> Tried | None:
            if self.course.stopped():
                return None
            self.bounded(policy)
            arm = next((each for each in self._free if each.arm.policy == str(policy)), None)
            return None if arm is None else judge(full, arm)

        found = bisect(self.setting.widths, sinks, probe)
        with self._lock:
            known.searches.append(found)

    def _start(self, policy: KvPolicy) -> Engine:
        setting = self.setting
        return self.engines.start(
            EngineSpec(
                str(setting.folder), str(policy), setting.sessions, self.length, setting.block, setting.dtype,
                setting.seed,
            )
        )  # fmt: skip

    def _arms(self, engine: Engine, policy: KvPolicy) -> None:
        assert self.known is not None
        control = policy in self.setting.controls
        arm, plan = Arm(str(policy), FREE, control), self._plan(self.known.free)
        replies = engine.converse("free", plan, self._seen(arm))
        self.course.show(f"{arm.name}: scripted replay")
        likelihoods = engine.replay("free", plan)
        read = engine.perplexity(self.setting.text, self.length - 1) if self.setting.text else []
        self._store(ArmFacts(arm, replies, likelihoods, read))
        if self.setting.chat:
            arm, plan = Arm(str(policy), CHAT, control), self._plan(self.known.chat)
            self._store(ArmFacts(arm, engine.converse("chat", plan, self._seen(arm)), []))

    def _plan(self, pool: Sequence[Known]) -> Plan:
        setting = self.setting
        return make_plan(pool, setting.sessions, setting.questions, setting.answer, setting.temperature, setting.seed)

    def _need(self, pool: Sequence[Known], form: str) -> None:
        if len(pool) < LEAST_POOL:
            raise NotValidError(
                f"this model answers {len(pool)} of {len(QUESTIONS)} easy questions ({form}): nothing can be lost",
                "probe a model that answers, with its real weights",
            )

    def _seen(self, arm: Arm) -> Callable[[int], None]:
        def seen(asked: int) -> None:
            with self._lock:
                self._places[arm.name] = asked
                open_arms = [f"{name} {place}" for name, place in self._places.items()]
            self.course.show(f"question of {self.setting.questions} · {' · '.join(open_arms)}")

        return seen

    def _store(self, facts: ArmFacts) -> None:
        with self._lock:
            self._places.pop(facts.arm.name, None)
            if facts.arm.condition == FREE:
                self._free.append(facts)
            self.course.store(facts)


def run(setting: Setting, course: Course, log: Path) -> Calibrated | None:
    """Probe all arms; what the model knows. None: stopped before that was found out.

    Raises NotValidError where the model knows too little, UnreachableError where an engine fails.
    """
    whole = [*setting.policies, *setting.controls]
    base = next(policy for policy in whole if not policy.bounded)
    with Engines(log) as engines, ThreadPoolExecutor(setting.parallel) as lanes:
        work = _Run(setting, course, engines)
        jobs: list[Future[None]] = [lanes.submit(work.base, base)]
        jobs += [lanes.submit(work.bounded, policy) for policy in whole if policy.bounded]
        if setting.widths:
            jobs += [lanes.submit(work.search, sinks) for sinks in (0, setting.sinks)]
        open_jobs = set(jobs)
        try:
            while open_jobs and not course.stopped():
                done, open_jobs = wait(open_jobs, POLL, FIRST_COMPLETED)
                for job in done:
                    job.result()
        finally:
            for job in open_jobs:
                job.cancel()
            engines.stop()
    return work.known


def session_length(setting: Setting) -> int:
    """Most tokens that a session of any arm can reach, whole blocks. Raises UsageError."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(setting.folder / "tokenizer.json"))
        positions = int(msgspec.json.decode((setting.folder / "config.json").read_bytes())["max_position_embeddings"])
    except Exception as error:  # tokenizers raises a bare Exception
        raise UsageError(f"{setting.folder} holds no model that can be probed: {error}") from error

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    longest = 0
    for form in (FREE_FORMAT, CHAT_FORMAT):
        each = max(count(form.ask(question.text)) for question in QUESTIONS)
        each += setting.answer + count(form.close)
        longest = max(longest, count(form.system) + setting.questions * each)
    length = math.ceil((longest + ROOM) / setting.block) * setting.block
    if length > positions:
        raise UsageError(
            f"sessions of up to {length} tokens are longer than the model's {positions} positions",
            "ask fewer --questions or for a shorter --answer",
        )
    return length
