"""What is compared: each KV policy as an arm, the controls that make the comparison believable, and where a policy
first takes something away. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from metrobench.errors import UsageError
from metrobench.policy import RECYCLE, SINKS, UNBOUNDED, WINDOW, KvPolicy, parse_policy

FREE, CHAT, RENDERED = "free-running", "chat", "re-rendered"
"""Conditions: one endless answer; turns whose KV stays; turns computed anew from the latest ones."""
ENDPOINT, FRESH, LONG = "endpoint", "fresh sessions", "long sessions"
"""Policy of an endpoint, and its conditions: each question in a session of its own; many in one."""


class Arm(Struct, frozen=True):
    """One policy under one condition."""

    policy: str
    """On whole blocks, as the engine applies it; of re-rendered turns the window they are cut to."""
    condition: str
    control: bool = False
    """Added by the probe, not asked for."""

    @property
    def name(self) -> str:
        """What tables call it."""
        words = {FREE: self.policy, CHAT: f"{self.policy}, chat"}
        return words.get(self.condition, self.condition)


def alone(policy: KvPolicy) -> bool:
    """Whether it is a window without sinks."""
    return policy.kind == WINDOW or (policy.kind == SINKS and not policy.sinks)


def choose_policies(asked: str, block: int) -> tuple[list[KvPolicy], list[KvPolicy]]:
    """The policies of `--kv` on whole blocks, and the controls they need: unbounded, and beside one window alone
    another of twice its width. Raises UsageError."""
    policies = list(dict.fromkeys(parse_policy(part.strip(), block) for part in asked.split(",")))
    if not any(policy.bounded for policy in policies):
        raise UsageError(f"--kv {asked}: nothing is bounded", "name a window too, for example window:128+32")
    controls = [] if any(not policy.bounded for policy in policies) else [KvPolicy(UNBOUNDED)]
    windows = {policy.window for policy in policies if alone(policy)}
    if len(windows) == 1:
        controls.append(KvPolicy(WINDOW, 2 * windows.pop()))
    return policies, controls


def unit(policies: Sequence[KvPolicy]) -> int:
    """W of ages: the narrowest window among the policies; tokens."""
    return min(policy.window for policy in policies if policy.bounded)


def first_eviction(policy: KvPolicy, block: int) -> int | None:
    """Position of the first token that does not see all before it; None: never.

    vLLM's own window lets the query at t see (t - W, t]; the plugin's starts at the last multiple of the block at or
    before t, less W, and counts from the sinks' end. A recycled context may begin again as soon as it holds W tokens.
    """
    if not policy.bounded:
        return None
    if policy.kind in (WINDOW, RECYCLE):
        return policy.window
    return (policy.full_tokens // block + 1) * block
