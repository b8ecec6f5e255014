from __future__ import annotations

import json

import msgspec
import pytest

from metrobench.endpoints.guess import from_address, from_greeting


@pytest.mark.parametrize(
    ("url", "protocol"),
    [
        ("ws://h:8998/api/chat", "moshi"),
        ("ws://h:8080/api/asr-streaming", "kyutai-stt"),
        ("wss://api.openai.com/v1/realtime/translations?model=m", "openai-translation"),
        ("wss://x.openai.azure.com/openai/realtime?deployment=d", "azure"),
        ("wss://dashscope-intl.aliyuncs.com/api-ws/v1/realtime", "qwen"),
        ("ws://h:8099/v1/realtime?duplex=1", "vllm-omni"),
        ("wss://api.modelbest.cn/v1/realtime?mode=audio", "minicpm-o"),
        ("wss://h:8006/ws/duplex/adx_1", "minicpm-o-demo"),
        ("http://h:30000", "sglang-sessions"),
        ("ws://h:8000/v1/realtime", None),
    ],
)
def test_some_protocols_have_an_address_of_their_own(url: str, protocol: str | None) -> None:
    assert from_address(url) == protocol


@pytest.mark.parametrize(
    ("greeting", "protocol"),
    [
        ({"type": "session.created", "id": "sess-1", "created": 1}, "vllm-realtime"),
        ({"type": "session.created", "session": {"id": "s", "metrobench": {}}}, "realtime"),
        ({"type": "session.created", "session": {"id": "s", "sglang": {"granted": None}}}, "sglang-omni"),
        ({"type": "session.created", "session": {"id": "duplex-1"}}, "vllm-omni"),
        ({"type": "session.created", "session": {"type": "translation"}}, "openai-translation"),
        ({"type": "session.created", "session": {"input_audio_format": "pcm16"}}, "openai-beta"),
        ({"type": "session.created", "session": {"type": "realtime", "audio": {}}}, "openai"),
        ({"type": "session.queue_done"}, "minicpm-o"),
        ({"type": "session.queued", "position": 2}, "minicpm-o"),
        ({"type": "queue_done"}, "minicpm-o-demo"),
        ({"type": "hello"}, None),
        ({"type": []}, None),
        ([], None),
    ],
)
def test_a_greeting_tells_the_protocol(greeting: object, protocol: str | None) -> None:
    assert from_greeting(json.dumps(greeting).encode()) == protocol


def test_binary_greetings() -> None:
    assert from_greeting(b"\x00") == "moshi"
    assert from_greeting(msgspec.msgpack.encode({"type": "Ready"})) == "kyutai-stt"
    assert from_greeting(b"\xc1 what") is None
    assert from_greeting(b"") is None
