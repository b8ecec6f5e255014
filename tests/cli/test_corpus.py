"""`metrobench corpus`, in this process."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from metrobench.cli.main import main
from metrobench.corpus import catalog, download
from metrobench.corpus.packs import corpora_folder
from tests.cli.command import Finished, assert_plain_error, metrobench
from tests.corpus.sounds import KINDS, write_bad, write_kind
from tests.corpus.test_pull import LIBRI, source
from tests.corpus.web import Web

Run = Callable[..., Finished]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `metrobench corpus ...` with a data folder of its own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(download, "WAIT", 0.0)
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str) -> Finished:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main(["corpus", *arguments])
        done = capsys.readouterr()
        assert isinstance(caught.value.code, int)
        shown = [] if "--json" in arguments else done.out.splitlines()
        assert [line for line in shown if len(line) > 80 and str(tmp_path) not in line] == []
        return Finished(caught.value.code, done.out, done.err)

    return command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Good files of every kind, and bad ones."""
    for name in KINDS:
        write_kind(tmp_path / "audio" / "good", name)
    write_bad(tmp_path / "audio")
    return tmp_path / "audio"


def test_the_shipped_corpus_is_listed_and_well(run: Run) -> None:
    done = run("list")
    assert done.code == 0
    assert "default" in done.out and "CC-BY-SA-3.0" in done.out and "librispeech-dev-clean" in done.out
    done = run("verify")
    assert done.code == 0 and "all 58 files decode and have the right checksum" in done.out


def test_a_broken_corpus_does_not_hide_the_others(run: Run) -> None:
    (corpora_folder() / "broken").mkdir(parents=True)
    (corpora_folder() / "broken" / "manifest.jsonl").write_text("nonsense")
    done = run("list")
    assert done.code == 0
    assert "default" in done.out and "broken/manifest.jsonl line 1 describes no clip" in done.err


def test_clips_are_listed(run: Run) -> None:
    done = run("list", "default")
    assert len(done.out.splitlines()) == 61
    assert "generated" in done.out and "human" in done.out


def test_json_holds_everything(run: Run) -> None:
    (pack,) = json.loads(run("list", "--json").out)
    assert (pack["name"], pack["count"], pack["listed"]) == ("default", 58, True)
    clips = json.loads(run("list", "default", "--json").out)["clips"]
    assert len(clips) == 58 and all(clip["licence"] and clip["sha256"] for clip in clips)


def test_verify_names_every_bad_file_and_exits_1(run: Run, folder: Path) -> None:
    done = run("verify", str(folder))
    assert done.code == 1
    assert "11 of 23 files have something wrong" in done.out and "no manifest" in done.out
    for name in ("silent.wav", "clipped.wav", "corrupt.flac", "cut.opus", "empty.wav", "zero.mp3"):
        assert name in done.out
    assert "good/" not in done.out
    files = json.loads(run("verify", str(folder), "--json").out)["files"]
    faults = {file["file"]: [problem["fault"] for problem in file["problems"]] for file in files}
    assert faults["clipped.wav"] == ["clipped"] and faults["empty.wav"] == ["unreadable"]
    assert faults["good/mulaw.wav"] == []


def test_an_added_corpus_holds_the_good_files_unchanged(run: Run, folder: Path) -> None:
    (folder / "texts.tsv").write_text("file\ttext\ngood/pcm.wav\tHello there.\n")
    done = run(
        *("add", str(folder), "--name", "mine", "--language", "en", "--licence", "CC0"),
        *("--transcripts", str(folder / "texts.tsv")),
    )
    assert done.code == 0
    assert "left out, of no use (7)" in done.out and "kept, but look at them (4)" in done.out
    kept = corpora_folder() / "mine"
    for name in KINDS:
        assert (kept / "good" / name).read_bytes() == (folder / "good" / name).read_bytes()
    assert not (kept / "silent.wav").exists()
    clips = {clip["file"]: clip for clip in json.loads(run("list", "mine", "--json").out)["clips"]}
    assert len(clips) == len(KINDS) + 4
    clip = clips["good/pcm.wav"]
    assert (clip["language"], clip["licence"], clip["human"]) == ("en", "CC0", True)
    assert (clip["transcript"], clip["transcript_source"]) == ("Hello there.", "corpus")
    assert "mine" in run("list").out


def test_what_is_added_over_a_manifest_keeps_what_it_says(run: Run) -> None:
    from metrobench.resources import data_folder

    run("add", str(data_folder("audio_corpus")), "--name", "copy", "--minutes", "1", "--generated")
    clips = json.loads(run("list", "copy", "--json").out)["clips"]
    assert sum(clip["seconds"] for clip in clips) <= 60.0
    assert all(clip["human"] is False and clip["source"] for clip in clips)
    assert len({clip["language"] for clip in clips}) > 1
    assert run("verify", "copy").code == 0


def test_a_changed_clip_is_found(run: Run, folder: Path) -> None:
    run("add", str(folder / "good"), "--name", "mine")
    assert run("verify", "mine").code == 0
    (corpora_folder() / "mine" / "pcm.wav").write_bytes((folder / "good" / "wide.wav").read_bytes())
    (corpora_folder() / "mine" / "wide.wav").unlink()
    done = run("verify", "mine")
    assert done.code == 1
    assert "pcm.wav is not the file that the manifest lists" in done.out and "wide.wav is missing" in done.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["list", "nothing"], ["nothing"]),
        (["verify", "nothing"], ["nothing"]),
        (["verify", "empty"], ["no audio files"]),
        (["verify", "listed"], ["manifest.jsonl line 1"]),
        (["add", "nowhere"], ["nowhere", "not a folder"]),
        (["add", "empty"], ["no audio files"]),
        (["add", "bad"], ["no file of bad can be used"]),
        (["add", "bad", "--name", "default"], ["default", "--name"]),
        (["add", "bad", "--name", "../x"], ["../x"]),
        (["add", "bad", "--transcripts", "none.tsv"], ["none.tsv"]),
        (["add", "bad", "--minutes", "-1"], ["minutes"]),
        (["add"], ["DIR"]),
        (["pull", "librispeech"], ["librispeech-"]),
        (["pull", "librispeech-dev-clean", "--limit", "much"], ["--limit"]),
        (["pull", "librispeech-dev-clean"], ["--yes"]),
        (["sing"], ["sing"]),
    ],
)
def test_wrong_usage_exits_2(run: Run, tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    for name in ("empty", "bad", "listed"):
        (tmp_path / name).mkdir()
    (tmp_path / "bad" / "a.wav").write_bytes(b"nothing")
    (tmp_path / "listed" / "manifest.jsonl").write_text("nonsense")
    done = run(*arguments)
    err = done.err[done.err.index("metrobench: ") :]
    assert_plain_error(Finished(done.code, done.out, err), 2, *words)
    # click words its own complaints
    assert [line for line in err.splitlines() if len(line) > 80 and "Invalid value" not in line] == []


def test_common_voice_exits_2_with_the_way_to_add_it(run: Run) -> None:
    done = run("pull", "common-voice")
    assert done.code == 2
    assert "account" in done.err and "metrobench corpus add" in done.err
    assert all(len(line) <= 80 for line in done.err.splitlines())


def test_a_data_folder_that_cannot_be_written_is_named(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "taken"))
    done = run("add", str(folder / "good"), "--name", "mine", "--quiet")
    assert_plain_error(done, 2, "cannot write")


@pytest.fixture
def web() -> Iterator[Web]:
    with Web({"/dev-clean.tar.gz": LIBRI}) as web:
        yield web


def test_pull_shows_licence_and_result(run: Run, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    here = source(web)
    monkeypatch.setattr(catalog, "find_source", lambda name: here)
    done = run("pull", "librispeech-dev-clean", "--yes", "--minutes", "0.1")
    assert done.code == 0
    assert "CC BY 4.0" in done.err and "Panayotov" in done.err
    assert "its md5 is right" in done.out and "--audio librispeech-dev-clean" in done.out
    assert run("verify", "librispeech-dev-clean").code == 0
    assert "librispeech-dev-clean" in run("list").out
    done = run("pull", "librispeech-dev-clean", "--yes")
    assert_plain_error(done, 2, "already")


def test_pull_as_json(run: Run, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    here = source(web)
    monkeypatch.setattr(catalog, "find_source", lambda name: here)
    facts: dict[str, Any] = json.loads(run("pull", "librispeech-dev-clean", "--yes", "--json").out)
    assert (facts["count"], facts["checksum"], facts["left_out"]) == (12, "md5", [])
    assert facts["archive_bytes"] == len(LIBRI) and facts["attribution"]


def test_a_mirror_with_another_file_exits_3(run: Run, web: Web) -> None:
    done = run("pull", "librispeech-test-clean", "--yes", "--quiet", "--mirror", web.url("/dev-clean.tar.gz"))
    assert done.code == 3
    assert "published is 32fa31d2" in done.err and "deleted" in done.err


def test_no_network_exits_4(run: Run) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/a"
    done = run("pull", "librispeech-test-clean", "--yes", "--quiet", "--mirror", url)
    assert done.code == 4
    assert "cannot reach 127.0.0.1" in done.err and "network" in done.err


def test_wrong_audio_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.wav").write_bytes(b"nothing")
    base = ["run", "--sessions", "1", "--endpoint", "ws://127.0.0.1:1", "--quiet"]
    assert_plain_error(metrobench(*base, "--audio", "nothing", cwd=tmp_path), 2, "nothing")
    assert not (tmp_path / "reports").exists()
    assert_plain_error(metrobench(*base, "--audio", "bad", cwd=tmp_path), 2, "bad/a.wav", "corpus verify bad")


def test_a_record_says_what_was_spoken(tmp_path: Path) -> None:
    write_kind(tmp_path / "own", "pcm.wav")
    options = ["--audio", "own", "--noise", "5dB:pink", "--gain=-6dB", "--talk", "dialogue"]
    done = metrobench("check", "--endpoint", "ws://127.0.0.1:1", "--quiet", *options, cwd=tmp_path)
    assert done.code == 4
    (folder,) = (tmp_path / "reports").iterdir()
    setting = json.loads((folder / "run.json").read_text())["setting"]
    said = [setting[name] for name in ("audio", "language", "noise", "gain_db", "talk", "clips", "audio_seconds")]
    assert said == ["own", None, "5dB:pink", -6.0, "dialogue", ["pcm.wav"], 1.0]
    assert len(setting["audio_sha256"]) == 64
    assert not (folder / ".audio.npz").exists()
