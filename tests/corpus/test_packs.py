from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from metrobench.corpus.choice import choose_audio
from metrobench.corpus.manifest import load_manifest
from metrobench.corpus.packs import (
    choose,
    corpora_folder,
    find_pack,
    human_share,
    installed,
    spread,
    total,
    unknown_clip,
    valid_name,
)
from metrobench.errors import UsageError
from metrobench.resources import data_folder
from tests.corpus.sounds import speech, write

MOST_BYTES = 8_000_000


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files without a manifest, and others that are no audio."""
    for name in ("b.wav", "sub/a.flac", "sub/deep/C.WAV"):
        write(tmp_path / "own" / name, speech(16_000))
    (tmp_path / "own" / "notes.txt").write_text("notes")
    write(tmp_path / "own" / ".hidden" / "d.wav", speech(16_000))
    return tmp_path / "own"


def test_the_shipped_corpus_is_small_and_mostly_human() -> None:
    files = [path for path in data_folder("audio_corpus").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= MOST_BYTES
    pack = find_pack(None)
    assert pack.human >= 0.5
    assert {"en", "es", "fr", "it", "ru"} <= {clip.language for clip in pack.clips if clip.human}


def test_every_shipped_folder_has_its_licence_and_notice() -> None:
    text = (data_folder("audio_corpus") / "LICENSES.md").read_text()
    for clip in load_manifest(data_folder("audio_corpus")):
        assert f"{clip.file.split('/')[0]}/" in text
    for words in ("Allison Smith", "June Wallack", "Carlo Flora", "Maxim Topal", "changed", "share-alike"):
        assert words in text


def test_questions_hold_their_answers() -> None:
    answers = [clip.answer for clip in find_pack(None).clips if clip.kind == "question"]
    assert answers and any(answer == ["Paris"] for answer in answers)


def test_a_folder_without_a_manifest_is_its_audio_files(folder: Path) -> None:
    pack = find_pack(str(folder))
    assert [clip.file for clip in pack.clips] == ["b.wav", "sub/a.flac", "sub/deep/C.WAV"]
    assert pack.seconds == pytest.approx(3.0)
    assert not pack.listed


def test_own_corpora_are_found_by_name(folder: Path) -> None:
    assert installed() == []
    (corpora_folder()).mkdir(parents=True)
    folder.rename(corpora_folder() / "mine")
    assert installed() == []
    lines = (data_folder("audio_corpus") / "manifest.jsonl").read_text().splitlines()
    (corpora_folder() / "mine" / "manifest.jsonl").write_text(lines[0])
    (corpora_folder() / ".mine.part").mkdir()
    assert installed() == ["mine"]
    assert find_pack("mine").listed


@pytest.mark.parametrize("asked", ["nothing", "../etc", "/nowhere", ""])
def test_what_is_neither_corpus_nor_folder_is_refused(asked: str) -> None:
    with pytest.raises(UsageError, match="no corpus and no folder") as caught:
        find_pack(asked)
    assert "default" in caught.value.hint


def test_a_file_and_an_empty_folder_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a folder"):
        find_pack(str(folder / "b.wav"))
    (tmp_path / "bare").mkdir()
    with pytest.raises(UsageError, match="no audio files"):
        find_pack(str(tmp_path / "bare"))


@pytest.mark.parametrize("name", ["default", "", ".x", "a/b", "..", "a b", "x" * 65])
def test_names_that_are_not_allowed(name: str) -> None:
    assert not valid_name(name)


def test_only_one_language() -> None:
    clips = choose(find_pack(None), "es")
    assert {clip.language for clip in clips} == {"es"}
    with pytest.raises(UsageError, match="tlh") as caught:
        choose(find_pack(None), "tlh")
    assert "en" in caught.value.hint


def test_a_language_holds_its_regions(folder: Path) -> None:
    pack = find_pack(str(folder))
    tags = ("en_us", "en-GB", "eng")
    marked = tuple(replace(clip, language=tag) for clip, tag in zip(pack.clips, tags, strict=True))
    clips = choose(type(pack)(pack.name, pack.folder, marked, True), "en")
    assert [clip.language for clip in clips] == ["en_us", "en-GB"]


def test_a_folder_without_a_manifest_has_no_language(folder: Path) -> None:
    with pytest.raises(UsageError) as caught:
        choose(find_pack(str(folder)), "en")
    assert "corpus add" in caught.value.hint


@given(
    st.lists(st.tuples(st.integers(0, 5), st.floats(0.1, 50.0)), min_size=1, max_size=60),
    st.floats(0.1, 400.0),
)
def test_a_selection_is_no_longer_than_asked_and_keeps_the_order(made: list[tuple[int, float]], most: float) -> None:
    clips = [
        replace(unknown_clip(Path(f"{number}.wav"), length), speaker=str(speaker))
        for number, (speaker, length) in enumerate(made)
    ]
    kept = spread(clips, most)
    assert kept and kept == [clip for clip in clips if clip in kept]
    assert len(kept) == 1 or total(kept) <= most + 1e-6
    assert spread(clips, most) == kept
    if total(clips) <= most:
        assert kept == clips


def test_speakers_take_turns() -> None:
    clips = [replace(unknown_clip(Path(f"{n}.wav"), 1.0), speaker="loud" if n < 90 else f"s{n}") for n in range(100)]
    kept = spread(clips, 11.0)
    assert sum(clip.speaker == "loud" for clip in kept) == 1


def test_nothing_spoken_by_people_is_a_share_of_zero() -> None:
    assert human_share([unknown_clip(Path("a.wav"), 0.0)]) == 0.0


def test_what_a_record_says_of_the_audio(folder: Path) -> None:
    plain = choose_audio().describe()
    assert (plain["audio"], plain["talk"], plain["noise"], plain["gain_db"]) == ("default", "half", None, 0.0)
    assert plain["audio_human"] >= 0.5 and len(plain["clips"]) == 58
    own = choose_audio(str(folder), noise="10dB:pink", gain="-6dB", talk="dialogue").describe()
    assert (own["noise"], own["gain_db"], own["talk"]) == ("10dB:pink", -6.0, "dialogue")
    assert own["audio_human"] is None
    write(folder / "b.wav", speech(16_000, seed=1))
    assert choose_audio(str(folder)).describe()["audio_sha256"] != own["audio_sha256"]


@pytest.mark.parametrize("asked", [{"gain": "loud"}, {"gain": "99dB"}, {"noise": "x"}, {"talk": "song"}])
def test_wrong_options_are_refused(asked: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        choose_audio(**asked)
