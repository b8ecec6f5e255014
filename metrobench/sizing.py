"""What a session takes of a GPU's memory and how many sessions fit: arithmetic on profiles, nothing measured. Pure.

T grows by a + d - 1 tokens a frame: a come in, d are decoded, the last sampled one is discarded.
"""

from __future__ import annotations

from metrobench.policy import KvPolicy, kv_sessions, most_in_flight, peak_blocks
from metrobench.profiles import Profile

BLOCK = 16
"""Tokens in a KV block of vLLM on a GPU, by default."""
LISTENING, HALF, SPEAKING = 0.0, 0.5, 1.0
"""Shares of the time in which the model speaks."""


def tokens_per_second(profile: Profile, talk: float) -> float:
    """Tokens by which a session's context grows in a second while the model speaks for a share `talk` of the time."""
    timing = profile.timing
    decoded = talk * timing.tokens_out_speaking + (1.0 - talk) * timing.tokens_out_listening
    return (timing.tokens_in + decoded - 1.0) / timing.unit


def kv_bytes_per_minute(profile: Profile, talk: float) -> float:
    """Bytes of the decoder's KV that a minute adds to a session that no window bounds."""
    return 60.0 * tokens_per_second(profile, talk) * profile.decoder.kv_bytes_per_token


def positions_last(profile: Profile, talk: float) -> float | None:
    """Seconds until one request has used up the model's positions; None where they roll for ever, or nothing grows."""
    growth, positions = tokens_per_second(profile, talk), profile.decoder.max_positions
    return None if positions is None or growth <= 0.0 else positions / growth


def window_full_after(profile: Profile, policy: KvPolicy, talk: float) -> float | None:
    """Seconds until a new session has as many tokens as the policy keeps; None where it keeps all, or nothing grows."""
    growth = tokens_per_second(profile, talk)
    return policy.full_tokens / growth if policy.bounded and growth > 0.0 else None


def session_bytes(profile: Profile, policy: KvPolicy) -> int | None:
    """Bytes of a full session at its peak, whole KV blocks and the other stages; None where it never gets full."""
    if not policy.bounded:
        return None
    in_flight = most_in_flight(profile.timing.most_tokens, BLOCK)
    blocks = peak_blocks(policy.on_blocks(BLOCK), in_flight, BLOCK)
    return blocks * BLOCK * profile.decoder.kv_bytes_per_token + profile.stage_bytes


def sessions(profile: Profile, policy: KvPolicy, memory_bytes: int, seconds: float) -> int:
    """Sessions that one GPU has memory for: for ever where the policy bounds them, else for `seconds` of speaking each.

    The state of the other stages is counted at its fullest. Weights of all stages are on the GPU.
    """
    timing = profile.timing
    lifetime = round(seconds * tokens_per_second(profile, SPEAKING))
    in_flight = most_in_flight(timing.most_tokens, BLOCK)
    beside = -(-profile.stage_bytes // profile.decoder.kv_bytes_per_token)
    pool = profile.pool_tokens(memory_bytes)
    return kv_sessions(policy.on_blocks(BLOCK), pool, in_flight, lifetime, BLOCK, beside)
