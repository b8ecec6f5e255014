"""TOML into structs: what does not fit is named by its dotted name."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metrobench.errors import UsageError
from metrobench.tomlfile import MOST_NAMED, misfits, read_struct, refuse


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    width: int
    share: float = 1.0


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    inner: Inner
    more: dict[str, Inner] = {}


RIGHT = {"name": "x", "inner": {"width": 3}, "more": {"one": {"width": 1, "share": 2}}}


@pytest.mark.parametrize(
    ("data", "problems"),
    [
        (RIGHT, []),
        ({}, ["name is missing", "inner is missing"]),
        ({"nam": "x", "inner": {"width": 3}}, ["nam is unknown, did you mean name?"]),
        (RIGHT | {"nam": 1}, ["nam is unknown"]),
        (RIGHT | {"zzz": 1}, ["zzz is unknown"]),
        (RIGHT | {"name": 1}, ["name: expected str, got int"]),
        (
            RIGHT | {"inner": {"width": "3", "share": True}},
            ["inner.width: expected int", "inner.share: expected float"],
        ),
        (RIGHT | {"inner": 7}, ["inner: expected object, got int"]),
        (RIGHT | {"more": {"one": {"wide": 1}}}, ["more.one.wide is unknown, did you mean more.one.width?"]),
        (RIGHT | {"more": {"one": 1}}, ["more.one: expected object, got int"]),
    ],
)
def test_each_misfit_is_named(data: dict[str, object], problems: list[str]) -> None:
    found = list(misfits(data, Outer))
    assert len(found) == len(problems)
    assert all(line.startswith(start) for line, start in zip(found, problems, strict=True)), found


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.dictionaries(st.sampled_from(["name", "inner", "more", "width", "share", "x"]), inner, max_size=4)
        | st.lists(inner, max_size=2)
    ),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(["name", "inner", "more", "x"]), VALUES))
def test_what_has_no_misfit_converts(data: dict[str, object]) -> None:
    fits = True
    try:
        msgspec.convert(data, Outer)
    except msgspec.ValidationError:
        fits = False
    assert fits == (not list(misfits(data, Outer)))


def test_a_long_list_is_cut(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        refuse(tmp_path / "x.toml", "file", [f"field {number}" for number in range(MOST_NAMED + 3)])
    assert raised.value.hint.endswith("and 3 more")
    assert raised.value.message == "file x.toml: field 0"


@pytest.mark.parametrize("content", [b"name = ", b"\xff\xfe", b"a = " + b"[" * 5000])
def test_what_is_not_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.toml").write_bytes(content)
    with pytest.raises(UsageError, match=r"bad\.toml is not TOML"):
        read_struct(tmp_path / "bad.toml", Outer, "file")


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_struct(tmp_path, Outer, "file")
