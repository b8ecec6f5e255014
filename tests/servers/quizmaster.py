"""A scripted server that knows the shipped corpus's questions by their sound, and answers them as its script says.

It speaks the dialect of the embedded worker, and answers in text.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import uvloop

from metrobench.corpus.manifest import load_manifest, speaks
from metrobench.corpus.stream import build_table
from metrobench.corpus.turns import utterance
from metrobench.quality.spoken.plan import Spoken, aliases_of, usable
from metrobench.resources import data_folder
from metrobench.units import CHUNK
from tests.servers.truth import Script, TruthServer, World, _serve, _Session

NEVER = 1e9


@dataclass
class Quiz(Script):
    """How it answers."""

    delay: float = 0.05
    """Seconds from a question's last chunk to the answer."""
    wrong_from: float = NEVER
    """Age of a session in seconds from which answers are wrong."""
    mute_from: float = NEVER
    """The same for silence."""
    slow_from: float = NEVER
    """The same for answers after `slow` seconds."""
    slow: float = 0.0
    every: int = 1
    """Of the questions of a session only the first, and every so manieth after it, is answered at all."""


def questions(rate: int) -> dict[bytes, Spoken]:
    """By the bytes of their first chunk."""
    folder = data_folder("audio_corpus")
    clips = [clip for clip in usable(load_manifest(folder)) if speaks(clip, "en")]
    table = build_table(tuple(folder / clip.file for clip in clips), rate)
    found = {}
    for clip, span in zip(clips, table.clips, strict=True):
        heard = utterance(table, span, span[1])
        assert heard is not None
        found[table.pcm(heard[0])] = Spoken(clip.transcript, aliases_of(clip), *heard)
    return found


class QuizSession(_Session):
    """One session."""

    known: ClassVar[dict[int, dict[bytes, Spoken]]] = {}
    """By sample rate."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.chunks = 0
        self.asked: Spoken | None = None
        self.left = 0
        self.place = -1

    def handle(self, message: dict[str, Any]) -> None:
        super().handle(message)
        if message["type"] == "session.update" and self.rate not in self.known:
            self.known[self.rate] = questions(self.rate)
        elif message["type"] == "input_audio_buffer.append":
            self.listen(base64.b64decode(message["audio"]))

    def consume(self, k: int) -> None:
        """Frames by themselves are not answered."""

    def listen(self, chunk: bytes) -> None:
        self.chunks += 1
        if self.asked is None:
            self.asked = self.known[self.rate].get(chunk)
            self.left = self.asked.count if self.asked else 0
        self.left -= 1
        if self.asked is not None and not self.left:
            self.place += 1
            self.reply(self.asked)
            self.asked = None

    def reply(self, question: Spoken) -> None:
        script = self.world.script
        assert isinstance(script, Quiz)
        age = self.chunks * CHUNK
        if age >= script.mute_from or self.place % script.every:
            return
        words = "It is the the the." if age >= script.wrong_from else f"It is {question.aliases[0]}."
        delay = script.slow if age >= script.slow_from else script.delay
        for word in words.split():
            message = {"type": "response.output_text.delta", "delta": f" {word}"}
            self.world.loop.call_later(delay, self.say, message)


class QuizServer(TruthServer):
    """The server's process."""

    program = Path(__file__)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    QuizSession.known[16_000] = questions(16_000)
    uvloop.run(_serve(Quiz(**json.loads(sys.argv[1])), QuizSession))
