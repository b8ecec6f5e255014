"""Profiles: shipped ones hold together, one's own are checked, unknown ones are named."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from metrobench.errors import UsageError
from metrobench.policy import parse_policy
from metrobench.profiles import Profile, load_profile, profile_names
from metrobench.resources import data_folder


@pytest.mark.parametrize("name", profile_names())
def test_a_shipped_profile_holds_together(name: str) -> None:
    profile = load_profile(name)
    assert profile.name == name
    assert parse_policy(profile.kv).bounded
    assert profile.reference_pool_tokens > parse_policy(profile.kv).full_tokens
    assert profile.timing.tokens_out_listening >= 1
    assert profile.stand_in.heads % profile.stand_in.kv_heads == 0


def test_every_model_that_people_know_has_its_profile() -> None:
    assert set(profile_names()) == {
        "interaction-200ms",
        "kyutai-stt",
        "minicpm-o",
        "minicpm-o-2.6",
        "minicpm-o-paper",
        "moshi",
        "personaplex",
        "qwen2.5-omni",
        "qwen3-asr",
        "qwen3-omni",
        "smoke",
        "ultravox",
        "voxtral-realtime",
    }


def figures(profile: Profile) -> set[str]:
    """Dotted names of the figures of the model and its GPU that are there; the stand-in is this package's own."""
    parts: dict[str, msgspec.Struct] = {
        "decoder": profile.decoder,
        "timing": profile.timing,
        "reference_gpu": profile.reference_gpu,
    }
    parts |= {f"stages.{name}": stage for name, stage in profile.stages.items()}
    return {
        f"{part}.{field.name}"
        for part, struct in parts.items()
        for field in msgspec.structs.fields(struct)
        if isinstance(value := getattr(struct, field.name), int | float) and value != field.default
    }


@pytest.mark.parametrize("name", [name for name in profile_names() if name != "smoke"])
def test_every_figure_of_a_real_model_names_its_source(name: str) -> None:
    profile = load_profile(name)
    # that positions roll for ever needs a source too
    assert figures(profile) | {"decoder.max_positions"} == set(profile.sources)
    assert all(len(source) > 8 for source in profile.sources.values())


def test_a_guessed_model_says_so_wherever_it_can() -> None:
    profile = load_profile("interaction-200ms")
    assert "guess" in profile.title
    assert "guess" in profile.not_shown
    guessed = {path for path, source in profile.sources.items() if "a guess" in source}
    assert figures(profile) - guessed == {"timing.unit_ms", "reference_gpu.memory_bytes", "reference_gpu.utilisation"}


@pytest.mark.parametrize("name", [name for name in profile_names() if name not in ("smoke", "minicpm-o-paper")])
def test_a_real_model_says_what_its_decoder_alone_cannot_show(name: str) -> None:
    assert load_profile(name).not_shown


@pytest.mark.parametrize(
    ("name", "kib"),
    [
        ("moshi", 512),
        ("personaplex", 512),
        ("kyutai-stt", 128),
        ("voxtral-realtime", 104),
        ("minicpm-o", 144),
        ("minicpm-o-2.6", 56),
        ("qwen2.5-omni", 56),
        ("qwen3-omni", 96),
        ("qwen3-asr", 112),
        ("ultravox", 128),
    ],
)
def test_kv_of_a_token_is_what_the_shape_gives(name: str, kib: int) -> None:
    assert load_profile(name).decoder.kv_bytes_per_token == kib * 1024


@pytest.mark.parametrize(
    ("name", "window"), [("moshi", 3000), ("personaplex", 3000), ("kyutai-stt", 750), ("voxtral-realtime", 8192)]
)
def test_a_model_with_a_window_of_its_own_uses_it(name: str, window: int) -> None:
    profile = load_profile(name)
    assert profile.decoder.native_window == window
    assert profile.kv == f"window:{window}"
    assert profile.timing.most_tokens - 1 == 1, "input and output share one position"
    assert profile.budget == profile.timing.unit == 0.08


@pytest.mark.parametrize(
    ("name", "rate"), [("qwen3-omni", 13), ("qwen3-asr", 13), ("qwen2.5-omni", 25), ("ultravox", 6.25)]
)
def test_audio_tokens_come_at_the_models_own_rate(name: str, rate: float) -> None:
    timing = load_profile(name).timing
    assert timing.tokens_in / timing.unit == rate


@pytest.mark.parametrize("name", profile_names())
def test_the_stand_in_speaks_the_models_vocabulary(name: str) -> None:
    profile = load_profile(name)
    assert profile.stand_in.vocab == profile.decoder.vocab


def test_the_table_of_gpus_is_no_profile() -> None:
    assert (data_folder("profiles") / "gpus.toml").is_file()
    assert "gpus" not in profile_names()
    with pytest.raises(UsageError, match="unknown model 'gpus'"):
        load_profile("gpus")


def test_an_unknown_model_names_the_nearest() -> None:
    with pytest.raises(UsageError) as raised:
        load_profile("minicpmo")
    assert "minicpm-o" in raised.value.hint


def _own(tmp_path: Path, **changes: object) -> Path:
    """A copy of smoke with some fields changed (`part__name`), or left out where the value is None."""
    data = without_none(msgspec.to_builtins(load_profile("smoke")))
    for path, value in changes.items():
        part, _, name = path.rpartition("__")
        fields = data[part] if part else data
        if value is None:
            del fields[name]
        else:
            fields[name] = value
    file = tmp_path / "own.toml"
    file.write_bytes(msgspec.toml.encode(data))
    return file


def without_none(data: dict[str, Any]) -> dict[str, Any]:
    return {
        name: without_none(value) if isinstance(value, dict) else value
        for name, value in data.items()
        if value is not None
    }


def test_ones_own_file_works_by_path(tmp_path: Path) -> None:
    assert load_profile(str(_own(tmp_path, budget_ms=80.0))).budget == pytest.approx(0.08)


def test_ones_own_file_needs_no_sources(tmp_path: Path) -> None:
    assert load_profile(str(_own(tmp_path, sources=None))).sources == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"budget_ms": 0.0},
        {"budget_ms": -5.0},
        {"timing__tokens_out_listening": 0},
        {"timing__unit_ms": 30.0},
        {"decoder__layers": 0},
        {"reference_gpu__utilisation": 1.5},
        {"stand_in__block_size": 3},
        {"stand_in__kv_heads": 3},
        {"title": 5},
        {"unheard": 1},
        {"name": ""},
        {"reference_gpu__name": ""},
        {"kv": "window:0"},
        {"timing__sample_rate": 11_025},
        {"timing__unit_ms": float("nan")},
        {"timing__tokens_in": "six"},
        {"timing__tokens_in": None},
        {"decoder__max_positions": None},
        {"decoder__native_window": 100, "decoder__max_positions": 100},
        {"decoder__kv_layers": 3},
        {"decoder__experts": 8},
        {"decoder__experts_per_token": 9, "decoder__experts": 8, "decoder__expert_width": 64},
        {"decoder__layer": 3},
        {"stages": {"codec": {"session_bytes": 0}}},
        {"stages": {"codec": {}}},
        {"stages": {"codec": {"session_bites": 5}}},
    ],
)
def test_a_figure_out_of_bounds_is_named(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(UsageError) as raised:
        load_profile(str(_own(tmp_path, **changes)))
    assert next(iter(changes)).replace("__", ".") in raised.value.message


def test_each_wrong_field_has_its_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        load_profile(str(_own(tmp_path, budget_ms=0, timing__unit_ms=30.0, decoder__heads=3)))
    lines = [raised.value.message, *raised.value.hint.split("\n  ")]
    for line, field in zip(lines, ("budget_ms", "decoder.heads", "timing.unit_ms"), strict=True):
        assert field in line


def test_a_model_that_rolls_for_ever_still_gives_an_engine_a_limit(tmp_path: Path) -> None:
    own = load_profile(str(_own(tmp_path, decoder__max_positions=None, decoder__native_window=100)))
    assert own.decoder.request_positions > own.decoder.native_window  # type: ignore[operator]
    assert load_profile("smoke").decoder.request_positions == 8192


@pytest.mark.parametrize("content", [b"", b"name = ", b"\xff\xfe", b"name = 'x'"])
def test_a_file_that_is_no_profile_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.toml").write_bytes(content)
    with pytest.raises(UsageError, match=r"bad\.toml"):
        load_profile(str(tmp_path / "bad.toml"))


def test_the_data_folders_are_found() -> None:
    assert (data_folder("audio_corpus") / "manifest.jsonl").is_file()
    with pytest.raises(UsageError):
        data_folder("no-such-folder")


def test_the_profile_type_has_no_unbounded_number() -> None:
    """Every number of the profile is bounded."""
    from metrobench.profiles import _BOUNDS

    bounded = {bound.path for bound in _BOUNDS}
    for part in ("decoder", "timing", "reference_gpu", "stand_in"):
        kind = Profile.__annotations__[part]
        struct = getattr(__import__("metrobench.profiles", fromlist=[kind]), kind)
        for name, type_name in struct.__annotations__.items():
            if type_name in ("int", "float", "int | None"):
                assert f"{part}.{name}" in bounded, f"{part}.{name} has no bounds"
