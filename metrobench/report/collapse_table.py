"""A batch of trials in words: incidence per policy, what told them apart, what the engine said meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from metrobench.errors import UsageError
from metrobench.measure.collapse import Collapse
from metrobench.measure.incidence import Incidence, contrast, incidence, trial
from metrobench.measure.verdict import NOT_WATCHED
from metrobench.predict.odds import Odds
from metrobench.records import ProbeRecord, Record, read_telemetry
from metrobench.report.forecast import probability
from metrobench.report.layout import hang, wrap
from metrobench.report.terminal import notes, stand_in_line
from metrobench.units import percent, seconds

HEADINGS = ("policy", "collapsed", "share", "95 % interval", "onset", "kinds")
ENGINE_WORDS = ("kv_usage", "running", "waiting", "deferred", "preemptions")
"""What an engine says of itself that people watch."""


def heading(record: Record) -> str:
    """What is being measured, in two or three lines."""
    setting = record.setting
    parts = (
        record.profile["name"],
        f"{setting['sessions']} sessions",
        f"budget {seconds(setting['budget'])}",
        setting["kv"].replace(",", ", "),
        f"{setting['trials']} trials each of {seconds(setting['span'])}, interleaved, fresh worker each",
    )
    return "\n".join([*stand_in_line(record), *wrap(" · ".join(parts))])


def conclude(record: Record, folder: Path, model: dict[str, Odds]) -> None:
    """Note in the record what its trials say, beside what the model says by policy."""
    policies = record.setting["kv"].split(",")
    found = {policy: incidence([_trial(probe) for probe in watched(record, policy)]) for policy in policies}
    contrasts = [contrast(a, found[a], b, found[b]) for a, b in combinations(policies, 2)]
    record.result = {
        "policies": msgspec.to_builtins(found),
        "contrasts": msgspec.to_builtins([each for each in contrasts if each is not None]),
        "void": len(record.probes) - sum(each.trials for each in found.values()),
        "aftermath": _aftermath(record.probes),
        "silence": _silence(record, folder),
        "model": {policy: _against(told, found[policy]) for policy, told in model.items()},
        "forecasts": _forecasts(record.probes),
        "tenths": {policy: _tenths(watched(record, policy)) for policy in policies},
    }


def text(record: Record) -> str:
    """The result of a batch."""
    words = [HEADINGS, *rows(record)]
    widths = [max(len(line[column]) for line in words) for column in range(len(HEADINGS))]
    lines = [""]
    for line in words:
        inner = [cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:-1], strict=True)]
        lines += hang("  ".join([line[0].ljust(widths[0]), *inner, ""]), line[-1])
    lines.append("")
    for remark in remarks(record):
        lines += wrap(remark)
    return "\n".join([*lines, *notes(record)])


def rows(record: Record) -> list[tuple[str, ...]]:
    """One line a policy, one cell per heading."""
    result: dict[str, Any] = record.result or {}
    return [_row(policy, found) for policy, found in result.get("policies", {}).items()]


def remarks(record: Record) -> list[str]:
    """What else a batch says: differences between policies, what the engine said, what brought it back."""
    result: dict[str, Any] = record.result or {}
    found = []
    for policy, each in result.get("policies", {}).items():
        if each["outside"]:
            found.append(f"{policy}: {each['outside']} more collapsed when already overloaded, or from the start")
    for each in result.get("contrasts", []):
        found.append(f"{each['first']} against {each['second']}: p = {each['p']:.2g} (Fisher's exact test)")
        if each["smallest"] is not None:
            none, some = each["smallest"]
            found.append(f"smallest difference these trials could show: {none} against {some} collapses")
        else:
            found.append("these trials are too few to show any difference")
    if result.get("void"):
        found.append(f"{result['void']} trials were not watched to their end (the client died) and are left out")
    found += [_odds_words(policy, each) for policy, each in result.get("model", {}).items()]
    found += _tenths_words(result.get("tenths", {}))
    found += _forecast_words(result.get("forecasts", []))
    return [*found, *_silence_words(result.get("silence")), *_aftermath_words(result.get("aftermath") or {})]


def _against(told: Odds, found: Incidence) -> dict[str, Any]:
    """The model's probability beside the observed interval."""
    share = found.share
    inside = None if share is None else share.lower <= told.probability <= share.upper
    return {**msgspec.to_builtins(told), "inside": inside, "observed": msgspec.to_builtins(share)}


def _odds_words(policy: str, told: dict[str, Any]) -> str:
    text = (
        f"{policy}: by the model ({told['why']}) the pool is full by {seconds(told['before'])}, the latest onset that"
        f" these trials could name, with probability {probability(told['probability'])}"
    )
    if told["inside"] is None:
        return text
    lower, upper = (told["observed"][end] for end in ("lower", "upper"))
    where = "inside" if told["inside"] else "OUTSIDE"
    return f"{text}: {where} the observed interval, {lower * 100:.1f} to {percent(upper)}{_own_words(told.get('own'))}"


def _own_words(own: dict[str, Any] | None) -> str:
    if own is None:
        return ""
    trials = own["trials"]
    return f". By the audio of each trial itself {own['full']} of {trials} fill it by then; {own['agree']} went as told"


def _tenths(probes: Sequence[ProbeRecord]) -> dict[str, Any]:
    """The median trial's p50 in its first and last tenth; one in which half of the frames got no answer is slowest."""
    drifts = [probe.verdict["drift"] for probe in probes]
    told = [drift for drift in drifts if "first_tenth_p50" in drift]
    found: dict[str, Any] = {"trials": len(told)}
    for name in ("first", "last"):
        seen = [drift[f"{name}_tenth_p50"] for drift in told]
        answered = sorted(value for value in seen if value is not None)
        middle = (len(seen) - 1) // 2
        found[name] = answered[middle] if 0 <= middle < len(answered) else None
        found[f"{name}_answered"] = len(answered)
    return found


def _tenths_words(found: dict[str, dict[str, Any]]) -> list[str]:
    words = []
    for policy, each in found.items():
        if each["trials"] and each["first"] is not None:
            last = "no answer" if each["last"] is None else seconds(each["last"])
            words.append(
                f"{policy}: p50 {seconds(each['first'])} in the first tenth of the median trial, {last} in the last"
                f" (in {each['last_answered']} of {each['trials']} trials more than half of its frames were answered)"
            )
    return words


def _forecasts(probes: Iterable[ProbeRecord]) -> list[dict[str, Any]]:
    """By fill: how far the forecasts of all trials were from their onsets."""
    errors: dict[float, list[tuple[float, float | None]]] = {}
    for probe in probes:
        for each in probe.forecasts:
            if each.fill is not None and each.of_onset is not None:
                errors.setdefault(each.fill, []).append((each.of_onset, each.of_rest))
    found = []
    for fill, pairs in sorted(errors.items()):
        onset, rest = [one for one, _ in pairs], [other for _, other in pairs if other is not None]
        middle = float(np.median(rest)) if rest else None
        row: dict[str, Any] = {
            "fill": fill,
            "runs": len(pairs),
            "of_onset": float(np.median(onset)),
            "worst": max(onset),
        }
        found.append(row | {"of_rest": middle})
    return found


def _forecast_words(found: list[dict[str, Any]]) -> list[str]:
    words = []
    for each in found:
        rest = "" if each["of_rest"] is None else f", {percent(each['of_rest'])} of the time then left"
        words.append(
            f"forecast at {percent(each['fill'], 0)} full: {percent(each['of_onset'])} of the onset off{rest}"
            f" (medians of {each['runs']} runs; worst {percent(each['worst'])})"
        )
    return words


def watched(record: Record, policy: str) -> list[ProbeRecord]:
    """Trials of a policy that were watched to their end."""
    return [
        probe
        for probe in record.probes
        if probe.kv == policy and NOT_WATCHED.isdisjoint(probe.verdict["reasons"]) and probe.outcome != "interrupted"
    ]


def _trial(probe: ProbeRecord) -> Any:
    verdict = probe.verdict
    watched = verdict["cut"] + verdict["span"] + verdict["budget"]
    return trial(msgspec.convert(verdict["collapse"], Collapse), watched)


def _row(policy: str, found: dict[str, Any]) -> tuple[str, ...]:
    share, first, last = found["share"], found["onset_first"], found["onset_last"]
    return (
        policy,
        f"{found['collapsed']} of {found['trials']}",
        "-" if share is None else percent(share["value"], 0),
        "-" if share is None else f"{share['lower'] * 100:.1f} to {percent(share['upper'])}",
        "-" if first is None else seconds(first) if first == last else f"{seconds(first)} to {seconds(last)}",
        ", ".join(f"{kind} {count}" for kind, count in found["kinds"].items()) or "-",
    )


def _aftermath(probes: Iterable[ProbeRecord]) -> dict[str, dict[str, int]]:
    """By phase: collapsed trials in which it was tried, and those in which the server answered in it again."""
    found: dict[str, dict[str, int]] = {}
    for probe in probes:
        for phase in probe.aftermath:
            counts = found.setdefault(phase.phase, {"tried": 0, "served": 0})
            counts["tried"] += 1
            counts["served"] += phase.answered >= max(1, phase.sessions // 2)
    return found


_PHASE_WORDS = {
    "waited": "waiting",
    "paused": "pausing the audio",
    "resumed": "resuming it",
    "shed": "closing three of four sessions",
}


def _aftermath_words(found: dict[str, dict[str, int]]) -> list[str]:
    if not found:
        return []
    parts = [f"{_PHASE_WORDS.get(name, name)} {each['served']} of {each['tried']}" for name, each in found.items()]
    return [f"came back (half of the open sessions or more answered) by: {', '.join(parts)}"]


def _silence(record: Record, folder: Path) -> dict[str, Any] | None:
    """The engine's own figures a moment after the first collapse that can be seen, beside what the client saw."""
    for probe in record.probes:
        found = msgspec.convert(probe.verdict["collapse"], Collapse)
        if not found.collapsed or found.observed is None or found.named_at is None:
            continue
        with contextlib.suppress(UsageError):
            telemetry = read_telemetry(folder / probe.folder)
            place = int(np.searchsorted(telemetry["t"], found.named_at))
            if place < len(telemetry["t"]):
                said = {name: _known(telemetry[name][place]) for name in ENGINE_WORDS if name in telemetry}
                return {
                    "trial": probe.index,
                    "kind": found.kind.value,
                    "t": float(telemetry["t"][place]),
                    "since": found.observed,
                    "share": found.share,
                    "sessions": probe.sessions,
                    "engine": said,
                }
    return None


def _silence_words(silence: dict[str, Any] | None) -> list[str]:
    if silence is None:
        return []
    said = silence["engine"]
    figures = [f"kv {percent(said['kv_usage'], 0)}"] if said.get("kv_usage") is not None else []
    figures += [f"{name} {said[name]:.0f}" for name in ENGINE_WORDS[1:] if said.get(name) is not None]
    quiet = silence["t"] - silence["since"]
    share = silence["share"] or 1.0
    return [
        f"{silence['kind']} in trial {silence['trial']}: {seconds(quiet)} after its onset"
        f" {round(share * silence['sessions'])} of {silence['sessions']} sessions had no answer,"
        f" and the engine said of itself: {', '.join(figures) or 'nothing'}"
    ]


def _known(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
