from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from metrobench.corpus import download
from metrobench.corpus.catalog import FLEURS_LANGUAGES, LIBRISPEECH, Source, find_source, names
from metrobench.corpus.manifest import load_manifest, verify
from metrobench.corpus.packs import corpora_folder, find_pack
from metrobench.corpus.pull import Pulled, pull
from metrobench.errors import NotValidError, UsageError
from tests.corpus.web import Web


def flac(seed: int, seconds: float = 0.5) -> bytes:
    file = io.BytesIO()
    noise = np.random.default_rng(seed).standard_normal(round(16_000 * seconds)) * 0.1
    soundfile.write(file, noise, 16_000, format="FLAC")
    return file.getvalue()


def archive(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


def libri(speakers: int = 3, clips: int = 4) -> bytes:
    """An archive laid out as LibriSpeech is."""
    members = {"LibriSpeech/README.TXT": b"about"}
    for speaker in range(speakers):
        chapter = f"LibriSpeech/dev-clean/{speaker}/7"
        for clip in range(clips):
            members[f"{chapter}/{speaker}-7-{clip:04d}.flac"] = flac(10 * speaker + clip)
        lines = "".join(f"{speaker}-7-{clip:04d} SPEAKER {speaker} SAYS {clip}\n" for clip in range(clips))
        members[f"{chapter}/{speaker}-7.trans.txt"] = lines.encode()
    return archive(members)


LIBRI = libri()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(download, "WAIT", 0.0)


@pytest.fixture
def web() -> Iterator[Web]:
    with Web({"/dev-clean.tar.gz": LIBRI}) as web:
        yield web


def source(web: Web, **change: object) -> Source:
    real = find_source("librispeech-dev-clean")
    return replace(real, url=web.url("/dev-clean.tar.gz"), md5=hashlib.md5(LIBRI).hexdigest(), **change)


def bring(source: Source, **change: object) -> Pulled:
    asked: dict[str, object] = {"mirror": None, "most_bytes": None, "most_seconds": 3600.0, "tell": lambda _: None}
    return pull(source, **(asked | change))


def test_a_pulled_corpus_is_whole_and_says_where_it_is_from(web: Web) -> None:
    pulled = bring(source(web))
    assert pulled.checked == "md5"
    pack = find_pack("librispeech-dev-clean")
    assert verify(pack.folder, load_manifest(pack.folder)) == []
    assert len(pack.clips) == 12 and pack.human == 1.0 and pack.languages == ["en"]
    clip = next(clip for clip in pack.clips if clip.file == "2/7/2-7-0003.flac")
    assert (clip.transcript, clip.transcript_source) == ("SPEAKER 2 SAYS 3", "corpus")
    assert (clip.speaker, clip.licence) == ("librispeech-dev-clean-2", "CC BY 4.0")
    assert "Panayotov" in (pack.folder / "NOTICE.txt").read_text()


def test_nothing_but_the_corpus_stays(web: Web) -> None:
    bring(source(web))
    assert [path.name for path in corpora_folder().rglob("*.tar.gz*")] == []
    assert not any((corpora_folder() / ".downloads").iterdir())


def test_few_minutes_are_taken_evenly_from_all_speakers(web: Web) -> None:
    clips = bring(source(web), most_seconds=3.1).kept.pack.clips
    assert sorted(clip.speaker[-1] for clip in clips) == ["0", "0", "1", "1", "2", "2"]


def test_the_beginning_of_an_archive_gives_the_clips_in_it(web: Web) -> None:
    pulled = bring(source(web), most_bytes=len(LIBRI) // 2)
    assert pulled.checked == ""
    assert 3 <= len(pulled.kept.pack.clips) < 12
    assert pulled.kept.left_out == pulled.kept.doubtful == ()


def test_a_beginning_without_a_clip_is_an_error(web: Web) -> None:
    with pytest.raises(NotValidError, match="holds no audio"):
        bring(source(web), most_bytes=50)
    assert not (corpora_folder() / "librispeech-dev-clean").exists()


def test_a_wrong_checksum_leaves_nothing(web: Web) -> None:
    with pytest.raises(NotValidError, match="md5"):
        bring(replace(source(web), md5="0" * 32))
    assert not (corpora_folder() / "librispeech-dev-clean").exists()
    web.asked = []
    bring(source(web))
    assert web.asked == [("/dev-clean.tar.gz", None)]


def test_a_damaged_archive_is_an_error(web: Web) -> None:
    web.files["/dev-clean.tar.gz"] = LIBRI[: len(LIBRI) // 2]
    with pytest.raises(NotValidError, match="cannot be unpacked"):
        bring(replace(source(web), md5=None))
    web.files["/dev-clean.tar.gz"] = b"<html>not found</html>"
    with pytest.raises(NotValidError, match="cannot be unpacked"):
        bring(replace(source(web), md5=None))


def test_an_archive_cannot_write_outside(web: Web, tmp_path: Path) -> None:
    evil = {"../../../../evil.flac": flac(1), "/abs/evil2.flac": flac(2), "a/../../../../evil3.flac": flac(3)}
    web.files["/dev-clean.tar.gz"] = archive(evil)
    pack = bring(replace(source(web), md5=None)).kept.pack
    assert len(pack.clips) == 3
    outside = [path for path in tmp_path.rglob("evil*") if pack.folder not in path.parents]
    assert outside == []
    assert not Path("/abs").exists()


def test_links_in_an_archive_are_left_out(web: Web) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        link = tarfile.TarInfo("a/link.flac")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        info = tarfile.TarInfo("a/real.flac")
        info.size = len(flac(1))
        tar.addfile(info, io.BytesIO(flac(1)))
    web.files["/dev-clean.tar.gz"] = file.getvalue()
    assert [clip.file for clip in bring(replace(source(web), md5=None)).kept.pack.clips] == ["a/real.flac"]


def test_broken_clips_in_it_are_left_out_and_named(web: Web) -> None:
    web.files["/dev-clean.tar.gz"] = archive({"d/1/1/a.flac": flac(1), "d/1/1/b.flac": b"broken"})
    kept = bring(replace(source(web), md5=None)).kept
    assert [clip.file for clip in kept.pack.clips] == ["1/1/a.flac"]
    assert [one.file for one in kept.left_out] == ["1/1/b.flac"]


def test_what_is_here_already_is_not_replaced(web: Web) -> None:
    bring(source(web))
    with pytest.raises(UsageError, match="already"):
        bring(source(web))


def test_a_mirror_is_asked_instead(web: Web) -> None:
    web.files["/mirror"] = LIBRI
    bring(source(web), mirror=web.url("/mirror"))
    assert [path for path, _ in web.asked] == ["/mirror"]


@pytest.fixture
def fleurs(web: Web) -> Source:
    """A source laid out as FLEURS is."""
    rows = '1\t11.wav\tHello, "World".\thello world\th e\t8000\tMALE\n2\t12.wav\tSecond.\tsecond\ts\t8000\tFEMALE\n'
    web.files["/dev.tsv"] = rows.encode()
    web.files["/dev.tar.gz"] = archive({"dev/11.wav": flac(1), "dev/12.wav": flac(2)})
    return replace(find_source("fleurs-de_de"), url=web.url("/dev.tar.gz"), texts=web.url("/dev.tsv"))


def test_transcripts_may_come_from_an_address_of_their_own(fleurs: Source) -> None:
    pack = bring(fleurs).kept.pack
    assert pack.languages == ["de_de"]
    assert [clip.transcript for clip in pack.clips] == ['Hello, "World".', "Second."]
    assert [clip.speaker for clip in pack.clips] == ["", ""]


def test_the_checksum_that_the_server_names_is_compared(fleurs: Source, web: Web) -> None:
    assert bring(replace(fleurs, name="none")).checked == ""
    web.redirect_sha256 = hashlib.sha256(web.files["/dev.tar.gz"]).hexdigest()
    assert bring(replace(fleurs, name="right")).checked == "sha256"
    web.redirect_sha256 = "0" * 64
    with pytest.raises(NotValidError, match="sha256"):
        bring(replace(fleurs, name="wrong"))


def test_every_name_has_a_source() -> None:
    assert len(names()) == len(LIBRISPEECH) + len(FLEURS_LANGUAGES)
    assert len(FLEURS_LANGUAGES) == 102
    for name in names():
        found = find_source(name)
        assert found.name == name
        assert found.licence and found.attribution and found.url.startswith("https://")
        assert found.texts or found.md5


@pytest.mark.parametrize("name", ["librispeech", "fleurs-", "fleurs-EN", "x", ""])
def test_unknown_names_are_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_source(name)
    assert "librispeech-" in caught.value.hint or "fleurs-" in caught.value.hint


@pytest.mark.parametrize("name", ["common-voice", "common_voice_en", "commonvoice", "cv-corpus-20"])
def test_common_voice_says_what_to_do_instead(name: str) -> None:
    with pytest.raises(UsageError, match="account") as caught:
        find_source(name)
    assert "corpus add" in caught.value.hint and "--transcripts" in caught.value.hint
