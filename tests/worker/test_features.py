"""Audio really becomes tokens, and silence is told from speech."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrobench.corpus.decode import decode
from metrobench.resources import data_folder
from metrobench.worker.features import FIRST_AUDIO_ID, MELS, UNIT_END, UNIT_START, Extractor, mel_matrix

RATE, UNIT, TOKENS, VOCAB = 16_000, 16_000, 12, 4096


@pytest.fixture(scope="module")
def extractor() -> Extractor:
    return Extractor(RATE, UNIT, TOKENS, VOCAB, seed=7)


def tone(frequency: float, length: int = UNIT, level: float = 0.3) -> np.ndarray:
    return (level * 32767 * np.sin(2 * np.pi * frequency * np.arange(length) / RATE)).astype(np.int16)


def silence(length: int) -> np.ndarray:
    return np.zeros(length, dtype=np.int16)


@pytest.mark.parametrize("tokens", [1, 2, 3, 12, 25, 100])
@pytest.mark.parametrize("unit_ms", [20, 80, 200, 1000])
def test_a_unit_gives_exactly_its_tokens(tokens, unit_ms):
    length = RATE * unit_ms // 1000
    extractor = Extractor(RATE, length, tokens, VOCAB)
    unit = extractor.unit(tone(440, length), silence(extractor.history))
    assert len(unit.tokens) == tokens
    assert all(0 <= token < VOCAB for token in unit.tokens)


def test_units_are_marked_at_both_ends(extractor):
    tokens = extractor.unit(tone(440), silence(extractor.history)).tokens
    assert tokens[0] == UNIT_START
    assert tokens[-1] == UNIT_END
    assert all(token >= FIRST_AUDIO_ID for token in tokens[1:-1])


def test_same_audio_gives_same_tokens(extractor):
    again = Extractor(RATE, UNIT, TOKENS, VOCAB, seed=7)
    before = tone(300, extractor.history)
    assert extractor.unit(tone(440), before) == again.unit(tone(440), before)


def test_different_audio_gives_different_tokens(extractor):
    before = silence(extractor.history)
    random = np.random.default_rng(3)
    sounds = [tone(200), tone(2000), (random.standard_normal(UNIT) * 3000).astype(np.int16)]
    assert len({tuple(extractor.unit(sound, before).tokens) for sound in sounds}) == len(sounds)


def test_another_seed_gives_other_tokens(extractor):
    other = Extractor(RATE, UNIT, TOKENS, VOCAB, seed=8)
    before = silence(extractor.history)
    assert other.unit(tone(440), before).tokens != extractor.unit(tone(440), before).tokens


def test_the_end_of_the_last_unit_is_heard(extractor):
    loud, quiet = tone(3000, extractor.history, 0.9), silence(extractor.history)
    assert not np.array_equal(
        extractor.log_mel(np.concatenate((quiet, tone(440)))).copy(),
        extractor.log_mel(np.concatenate((loud, tone(440)))),
    )


@pytest.mark.parametrize("frequency", [250, 1000, 4000])
def test_a_tone_has_its_energy_in_the_band_around_it(extractor, frequency):
    mel = extractor.log_mel(np.concatenate((silence(extractor.history), tone(frequency))))
    assert mel.shape == (50, MELS)
    loudest = int(mel[25].argmax())
    bins = np.linspace(0, RATE / 2, 201)
    reach = bins[mel_matrix(RATE, 400)[:, loudest] > 0]
    assert reach.min() - 40 <= frequency <= reach.max() + 40


def test_silence_is_no_speech_and_spoken_words_are(extractor):
    assert not extractor.speech(silence(UNIT))
    hiss = (np.random.default_rng(1).standard_normal(UNIT) * 20).astype(np.int16)
    assert not extractor.speech(hiss)
    clip = decode(next((data_folder("audio_corpus") / "librivox").glob("*.opus")), RATE)
    samples = np.asarray(clip, dtype=np.int16)[:UNIT]
    assert extractor.speech(samples)


@given(st.integers(-32768, 32767), st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_any_samples_give_finite_features(level, seed):
    extractor = Extractor(RATE, 1600, 4, VOCAB)
    random = np.random.default_rng(seed)
    samples = np.clip(random.standard_normal(1600 + extractor.history) * level, -32768, 32767).astype(np.int16)
    assert np.isfinite(extractor.log_mel(samples)).all()
    tokens = extractor.unit(samples[extractor.history :], samples[: extractor.history]).tokens
    assert all(0 <= token < VOCAB for token in tokens)


def test_a_vocabulary_without_room_is_refused():
    with pytest.raises(ValueError, match="no room"):
        Extractor(RATE, UNIT, TOKENS, FIRST_AUDIO_ID + 1)
