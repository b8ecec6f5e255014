"""The openai package's own realtime client completes a conversation."""

import asyncio
import base64

import numpy as np
import pytest

from metrobench.corpus.decode import decode
from metrobench.resources import data_folder
from tests.worker.rooms import room


async def converse(url: str) -> tuple[list[str], str, str]:
    """Event types, the reply's status and its text, after one spoken question at the client's own 24 kHz."""
    pytest.importorskip("openai")
    from benchmarks.refusal import openai_client

    clip = next((data_folder("audio_corpus") / "questions_tts").glob("en_*.opus"))
    samples = np.asarray(decode(clip, 24_000), dtype="<i2")
    kinds, text, status = [], "", ""
    client = openai_client(url)
    async with client.realtime.connect(model="any") as connection:
        await connection.session.update(
            session={
                "type": "realtime",
                "audio": {"input": {"format": {"type": "audio/pcm", "rate": 24_000}, "turn_detection": None}},
            }
        )
        for start in range(0, len(samples), 480):
            piece = base64.b64encode(samples[start : start + 480].tobytes()).decode()
            await connection.input_audio_buffer.append(audio=piece)
        await connection.input_audio_buffer.commit()
        await connection.response.create()
        async for event in connection:
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                text += event.delta
            if event.type == "error":
                raise AssertionError(event.error)
            if event.type == "response.done":
                status = event.response.status or ""
                assert event.response.output[0].content[0].text == text
                break
    await client.close()
    return kinds, status, text


def check(kinds: list[str], status: str, text: str) -> None:
    assert kinds[:2] == ["session.created", "session.updated"]
    order = [
        kinds.index(kind) for kind in ("response.created", "response.output_text.delta", "response.output_text.done")
    ]
    assert order == sorted(order)
    assert "input_audio_buffer.committed" in kinds
    assert status == "completed"
    assert text


def test_with_a_scripted_engine():
    async def play() -> tuple[list[str], str, str]:
        async with asyncio.timeout(60), room() as place:
            return await converse(place.url)

    check(*asyncio.run(play()))


@pytest.mark.engine
def test_with_vllm(worker):
    check(*asyncio.run(asyncio.wait_for(converse(worker.url), 60)))
