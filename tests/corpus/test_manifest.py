from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from metrobench.corpus.manifest import default_clips, load_manifest, verify
from metrobench.errors import UsageError
from metrobench.resources import data_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the first three shipped clips."""
    source = data_folder("audio_corpus")
    for clip in load_manifest(source)[:3]:
        (tmp_path / clip.file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / clip.file, tmp_path / clip.file)
    lines = (source / "manifest.jsonl").read_text().splitlines()[:3]
    (tmp_path / "manifest.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_shipped_corpus_is_whole() -> None:
    folder = data_folder("audio_corpus")
    clips = load_manifest(folder)
    assert verify(folder, clips) == []
    assert all(clip.licence and clip.source and clip.transcript for clip in clips)


def test_shipped_files_are_all_listed() -> None:
    folder = data_folder("audio_corpus")
    files = {str(path.relative_to(folder)) for path in folder.rglob("*.opus")}
    assert files == {clip.file for clip in load_manifest(folder)}


def test_default_clips_by_language() -> None:
    assert len(default_clips("en")) < len(default_clips())
    with pytest.raises(UsageError, match="tlh"):
        default_clips("tlh")


def test_changed_and_missing_clips_are_named(folder: Path) -> None:
    clips = load_manifest(folder)
    (folder / clips[0].file).write_bytes(b"other")
    (folder / clips[1].file).unlink()
    complaints = verify(folder, clips)
    assert len(complaints) == 2
    assert clips[0].file in complaints[0] and "checksum" in complaints[0]
    assert clips[1].file in complaints[1]


@pytest.mark.parametrize(
    "text",
    ["not json\n", '{"file": "a.opus"}\n', "[]\n", "\xff\n", ""],
)
def test_broken_manifest_is_an_error_with_the_line(folder: Path, text: str) -> None:
    (folder / "manifest.jsonl").write_text(text, encoding="latin-1")
    with pytest.raises(UsageError, match=r"manifest\.jsonl"):
        load_manifest(folder)


@pytest.mark.parametrize("path", ["../evil.opus", "/etc/passwd", ""])
def test_clips_outside_the_folder_are_refused(folder: Path, path: str) -> None:
    manifest = folder / "manifest.jsonl"
    first = load_manifest(folder)[0].file
    manifest.write_text(manifest.read_text().replace(first, path))
    with pytest.raises(UsageError, match="line 1"):
        load_manifest(folder)


def test_missing_manifest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no readable"):
        load_manifest(tmp_path)
