"""Which records belong together: same model, same policy, same number of sessions."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from metrobench.gate.samples import Answered, Sample, Trial

Key = tuple[str, ...]


class Group(Struct, frozen=True):
    """Records that are replicates of each other, and the runs of them that a rule is about."""

    key: Key
    samples: tuple[Sample, ...]
    trials: tuple[Trial, ...]
    """Of run rules: all runs of the group, in the order of the records; of mscs: none."""
    answered: tuple[Answered, ...] = ()
    """Of quality rules: the same arm of every record."""

    @property
    def scope(self) -> str:
        """As people read it."""
        return " · ".join(self.key)


def searches(samples: Sequence[Sample], allow: Collection[str]) -> list[Group]:
    """Capacity records by model and policy."""
    found: dict[Key, list[Sample]] = {}
    for sample in samples:
        if sample.kind == "capacity":
            found.setdefault(_key(sample, sample.conditions.get("policy", ""), allow), []).append(sample)
    return [Group(key, tuple(each), ()) for key, each in found.items()]


def runs(samples: Sequence[Sample], kinds: Collection[str], allow: Collection[str]) -> list[Group]:
    """Runs of records of `kinds` by model, policy and sessions."""
    members: dict[Key, list[Sample]] = {}
    trials: dict[Key, list[Trial]] = {}
    for sample in samples:
        if sample.kind not in kinds:
            continue
        for trial in sample.trials:
            count = () if "sessions" in allow else (f"{trial.sessions} sessions",)
            key = (*_key(sample, trial.kv, allow), *count)
            trials.setdefault(key, []).append(trial)
            held = members.setdefault(key, [])
            if sample not in held:
                held.append(sample)
    return [Group(key, tuple(members[key]), tuple(trials[key])) for key in trials]


def arms(samples: Sequence[Sample], allow: Collection[str]) -> list[Group]:
    """Arms of quality records by model and name."""
    found: dict[Key, list[tuple[Sample, Answered]]] = {}
    for sample in samples:
        for each in sample.answered:
            found.setdefault(_key(sample, each.arm, allow), []).append((sample, each))
    return [
        Group(key, tuple(sample for sample, _ in held), (), tuple(each for _, each in held))
        for key, held in found.items()
    ]


def partners(baseline: Sequence[Group], current: Sequence[Group]) -> list[tuple[Group | None, Group]]:
    """Each current group with its baseline; where there is one of each, these two whatever they are."""
    known = {group.key: group for group in baseline}
    if len(baseline) == 1 and len(current) == 1:
        return [(baseline[0], current[0])]
    return [(known.get(group.key), group) for group in current]


def _key(sample: Sample, policy: str, allow: Collection[str]) -> Key:
    model = sample.conditions.get("profile", "")
    return (model,) if "policy" in allow or not policy else (model, policy)
