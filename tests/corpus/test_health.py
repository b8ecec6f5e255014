from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from metrobench.corpus.decode import decode, seconds_of
from metrobench.corpus.health import Fault, inspect
from tests.corpus.sounds import KINDS, speech, write, write_bad, write_kind


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_file_is_read_and_found_well(tmp_path: Path, name: str) -> None:
    rate, channels, _ = KINDS[name]
    health = inspect(write_kind(tmp_path, name))
    assert health.problems == ()
    assert health.usable
    assert (health.sample_rate, health.channels) == (rate, channels)
    assert health.seconds == pytest.approx(1.0, abs=0.1)
    assert health.rms_dbfs == pytest.approx(-23.0, abs=1.0)
    assert seconds_of(tmp_path / name) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_file_is_decoded_alike(tmp_path: Path, name: str) -> None:
    pcm = decode(write_kind(tmp_path, name), 16_000)
    assert len(pcm) == pytest.approx(16_000, abs=1600)
    level = 10 * np.log10(np.mean((pcm / 32768.0) ** 2))
    # a wider band loses what 16 kHz cannot hold
    assert level == pytest.approx(-23.0 + 10 * np.log10(min(1.0, 16_000 / KINDS[name][0])), abs=1.5)


def test_every_trouble_is_named(tmp_path: Path) -> None:
    for name, words in write_bad(tmp_path).items():
        texts = [problem.text for problem in inspect(tmp_path / name).problems]
        assert len(texts) == 1 and words in texts[0], (name, texts)
        assert str(tmp_path) not in texts[0]


def test_cut_and_clipped_files_are_of_use_and_the_others_not(tmp_path: Path) -> None:
    usable = {name for name in write_bad(tmp_path) if inspect(tmp_path / name).usable}
    assert usable == {"clipped.wav", "cut.wav", "cut.opus", "cut.mp3"}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (problem,) = inspect(tmp_path / "none.wav").problems
    assert (problem.fault, problem.text) == (Fault.MISSING, "is missing")


def test_channels_that_cancel_each_other_are_silence(tmp_path: Path) -> None:
    mono = speech(16_000)
    health = inspect(write(tmp_path / "a.wav", np.stack([mono, -mono], axis=1)))
    assert [problem.fault for problem in health.problems] == [Fault.SILENT]


def test_a_recording_streamed_to_disk_without_its_length_is_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", speech(16_000))
    content = bytearray(path.read_bytes())
    content[4:8] = content[40:44] = struct.pack("<I", 0xFFFFFFFF)
    path.write_bytes(content)
    assert inspect(path).problems == ()


def test_a_damaged_middle_is_named(tmp_path: Path) -> None:
    path = write_kind(tmp_path, "lossy.opus", 4.0)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 9000] = bytes(9000)
    path.write_bytes(content)
    (problem,) = inspect(path).problems
    assert problem.fault is Fault.TRUNCATED and "can be decoded" in problem.text


def test_the_mp3_decoder_does_not_write_to_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_bad(tmp_path)
    inspect(tmp_path / "cut.mp3")
    inspect(tmp_path / "zero.mp3")
    assert capfd.readouterr().err == ""
