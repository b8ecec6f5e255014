"""Which gains keep the admission controller stable? A sweep in virtual time (metrobench.admission.simulate).

    python benchmarks/admission.py --out reports/admission-stability

Writes stability.json (every point), stability.svg (the region) and disturbances.svg (the default under a stall, slow
frames, and a capacity that is halved and restored). Seeded: the same figures every time.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from metrobench.admission.aimd import Aimd, Gains
from metrobench.admission.door import Door
from metrobench.admission.simulate import Trace, World, oscillation, overshoot, settled_after, simulate

MOST = 10_000
LENGTH, STEADY = 400.0, 150.0
"""Seconds of a run, and from when on it counts as steady."""
SEEDS = (1, 2)
BAND = 0.2
DECREASES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
INCREASES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.3)
FILTERS = (1, 3, 5)
WORLDS = {
    "calm": World(),
    "2 s stall": World(stall=(250.0, 2.0)),
    "10 % slow frames": World(slow=0.1),
    "halved and restored": World(halved=(200.0, 400.0)),
}
LENGTHS = {"halved and restored": 700.0}


def run(gains: Gains, world: World, seed: int, length: float = LENGTH) -> Trace:
    """One controller in one world."""
    return simulate(Door(Aimd(world.budget, MOST, gains), MOST, paced=True), world, length, seed)


def sweep() -> list[dict[str, Any]]:
    """The worst of the seeds and of two worlds at every point."""
    points = []
    for size in FILTERS:
        for decrease in DECREASES:
            for increase in INCREASES:
                gains = replace(Gains(), decrease=decrease, increase=increase, filter=size)
                traces = [run(gains, WORLDS[name], seed) for name in ("calm", "2 s stall") for seed in SEEDS]
                held = [float(np.median(trace.between(STEADY, LENGTH))) for trace in traces]
                swings = [oscillation(trace, STEADY, LENGTH) for trace in traces]
                points.append(
                    {
                        "filter": size,
                        "decrease": decrease,
                        "increase": increase,
                        "oscillation": round(max(swings), 4),
                        "held": round(min(held) / WORLDS["calm"].capacity, 4),
                    }
                )
    return points


def disturbed() -> list[dict[str, Any]]:
    """The default under each disturbance, all seeds."""
    rows = []
    for name, world in WORLDS.items():
        length = LENGTHS.get(name, LENGTH)
        for seed in SEEDS:
            trace = run(Gains(), world, seed, length)
            first = min(length, 200.0)
            star = float(np.median(trace.between(100.0, first)))
            row: dict[str, Any] = {
                "world": name,
                "seed": seed,
                "n_star": star,
                "settled_s": settled_after(trace, star, 0.0, first),
                "overshoot": round(overshoot(trace, star, 0.0, first), 3),
                "oscillation": round(oscillation(trace, STEADY, first if name == "halved and restored" else length), 3),
            }
            if name == "halved and restored":
                half = float(np.median(trace.between(320.0, 400.0)))
                row |= {
                    "n_star_halved": half,
                    "settled_halved_s": settled_after(trace, half, 200.0, 400.0),
                    "oscillation_halved": round(oscillation(trace, 320.0, 400.0), 3),
                    "restored": float(np.median(trace.between(600.0, 700.0))),
                    "settled_restored_s": settled_after(
                        trace, float(np.median(trace.between(600.0, 700.0))), 400.0, 700.0
                    ),
                }
            rows.append(row)
    return rows


def draw_region(points: list[dict[str, Any]], file: Path) -> None:
    """One panel a filter: oscillation over the two gains, the default marked."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 3.8), layout="constrained")
    panels: Iterable[Any] = figure.subplots(1, len(FILTERS), sharey=True)
    image: Any = None
    for axes, size in zip(panels, FILTERS, strict=True):
        grid = np.array(
            [
                [
                    next(
                        p["oscillation"]
                        for p in points
                        if (p["filter"], p["decrease"], p["increase"]) == (size, decrease, increase)
                    )
                    for increase in INCREASES
                ]
                for decrease in DECREASES
            ]
        )
        image = axes.imshow(grid, origin="lower", aspect="auto", cmap="RdYlGn_r", vmin=0.0, vmax=2 * BAND)
        for (y, x), value in np.ndenumerate(grid):
            weight = "bold" if value <= BAND else "normal"
            axes.text(x, y, f"{100 * value:.0f}", ha="center", va="center", fontsize=7.5, weight=weight)
        axes.set_xticks(range(len(INCREASES)), [f"{100 * each:g} %" for each in INCREASES], fontsize=8)
        axes.set_yticks(range(len(DECREASES)), [f"{each:g}" for each in DECREASES], fontsize=8)
        axes.set_title(f"median of {size} period{'s' if size > 1 else ''}", fontsize=10)
        axes.set_xlabel("increase a period, of the cap", fontsize=9)
        if size == Gains().filter:
            at = INCREASES.index(Gains().increase), DECREASES.index(Gains().decrease)
            axes.plot(*at, "s", markersize=21, markerfacecolor="none", markeredgecolor="black", markeredgewidth=1.8)
    figure.axes[0].set_ylabel("factor of a cut", fontsize=9)
    figure.colorbar(image, ax=figure.axes, label="oscillation")
    figure.suptitle("Largest swing of N about its median, % (bold: within 20 %; square: the default)", fontsize=10)
    figure.savefig(file)


def draw_disturbances(file: Path) -> None:
    """N and the cap over time, one panel a world."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 6.0), layout="constrained")
    panels: Iterable[Any] = figure.subplots(2, 2).ravel()
    for axes, (name, world) in zip(panels, WORLDS.items(), strict=True):
        trace = run(Gains(), world, SEEDS[0], LENGTHS.get(name, LENGTH))
        axes.plot(trace.t, [world.capacity_at(t) for t in trace.t], ":", color="grey", label="p50 = 0.3 B when full")
        axes.plot(trace.t, trace.sessions, color="tab:blue", label="open")
        axes.plot(trace.t, trace.cap, "--", color="tab:orange", linewidth=1.0, label="cap")
        axes.set_title(name, fontsize=10)
        axes.set_ylim(0.0, 260.0)
        axes.set_xlabel("seconds", fontsize=9)
    figure.axes[0].legend(fontsize=8)
    figure.savefig(file)


def main() -> None:
    """Sweep, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    points, rows = sweep(), disturbed()
    (out / "stability.json").write_text(json.dumps({"sweep": points, "disturbances": rows}, indent=1) + "\n")
    draw_region(points, out / "stability.svg")
    draw_disturbances(out / "disturbances.svg")
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
