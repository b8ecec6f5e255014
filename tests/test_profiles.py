"""Profiles: shipped ones hold together, one's own are checked, unknown ones are named."""

from pathlib import Path

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


@pytest.mark.parametrize("name", [name for name in profile_names() if name != "smoke"])
def test_every_figure_of_a_real_model_names_its_source(name: str) -> None:
    profile = load_profile(name)
    figures = {
        "decoder.weight_bytes",
        "decoder.layers",
        "decoder.kv_heads",
        "decoder.head_dim",
        "decoder.max_positions",
    }
    figures |= {"timing.unit_ms", "timing.tokens_in", "timing.tokens_out_listening", "timing.tokens_out_speaking"}
    assert figures <= set(profile.sources)


def test_minicpm_o_needs_144_kib_a_token() -> None:
    assert load_profile("minicpm-o").decoder.kv_bytes_per_token == 144 * 1024


def test_an_unknown_model_names_the_nearest() -> None:
    with pytest.raises(UsageError) as raised:
        load_profile("minicpmo")
    assert "minicpm-o" in raised.value.hint


def _own(tmp_path: Path, **changes: object) -> Path:
    data = msgspec.to_builtins(load_profile("smoke"))
    for path, value in changes.items():
        part, _, name = path.rpartition("__")
        (data[part] if part else data)[name] = value
    del data["decoder"]["kv_layers"]
    file = tmp_path / "own.toml"
    file.write_bytes(msgspec.toml.encode(data))
    return file


def test_ones_own_file_works_by_path(tmp_path: Path) -> None:
    assert load_profile(str(_own(tmp_path, budget_ms=80.0))).budget == pytest.approx(0.08)


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
    ],
)
def test_a_figure_out_of_bounds_is_named(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(UsageError) as raised:
        load_profile(str(_own(tmp_path, **changes)))
    assert next(iter(changes)).rpartition("__")[2] in raised.value.message or "title" in raised.value.message


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
    """Every number of the profile is either bounded or a positive count of bytes."""
    from metrobench.profiles import _BOUNDS

    bounded = {bound.path for bound in _BOUNDS}
    for part in ("decoder", "timing", "reference_gpu", "stand_in"):
        kind = Profile.__annotations__[part]
        struct = getattr(__import__("metrobench.profiles", fromlist=[kind]), kind)
        for name, type_name in struct.__annotations__.items():
            if type_name in ("int", "float") and name != "kv_dtype_bytes":
                assert f"{part}.{name}" in bounded, f"{part}.{name} has no bounds"
