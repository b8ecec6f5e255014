"""A first plain page: the verdict, the runs, the warnings, the machine. Self-contained, no request, dark and light."""

from __future__ import annotations

import contextlib
from html import escape
from typing import Any

from metrobench.records import Record, RunFolder
from metrobench.report.capacity_table import HEADINGS, cells, rows
from metrobench.report.terminal import mscs_line
from metrobench.units import percent, seconds

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid #8885; }
th:last-child, td:last-child, .left td, .left th { text-align: left; }
.stand-in { border-left: 4px solid #c60; padding: .3rem .8rem; }
"""


def write(folder: RunFolder, record: Record) -> None:
    """Write index.html beside run.json. A page that cannot be written never costs the measurement."""
    with contextlib.suppress(OSError):
        folder.write_text("index.html", page(record))


def page(record: Record) -> str:
    """The whole page."""
    name = record.profile["name"]
    parts = [f"<h1>{escape(_verdict(record))}</h1>"]
    if record.status != "complete":
        parts.append(f"<p><strong>{escape(record.status)}</strong>: {escape(record.error or 'partial record')}</p>")
    if record.stand_in:
        parts.append(
            f'<p class="stand-in">Stand-in: a small transformer ran in the place of {escape(name)}.'
            " This machine's capacity, not the model's.</p>"
        )
    if record.result and record.result.get("limited_by"):
        parts.append(f"<p>{escape(record.result['limited_by']['why'])}</p>")
    if record.result and record.result.get("arithmetic"):
        parts.append(f"<p>{escape(record.result['arithmetic'])}</p>")
    parts += ["<h2>Runs</h2>", _table(HEADINGS, [cells(row) for row in rows(record)])]
    if record.warnings:
        items = "".join(f"<li>{escape(warning.advice)}</li>" for warning in record.warnings)
        parts += ["<h2>Read with care</h2>", f"<ul>{items}</ul>"]
    parts += ["<h2>Each run</h2>", _table(("run", "sessions", "outcome", "seconds", "why"), _runs(record))]
    parts += ["<h2>Setting and machine</h2>", _pairs(_facts(record))]
    title = escape(f"{record.kind} {name}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _verdict(record: Record) -> str:
    if record.result and "mscs" in record.result:
        return mscs_line(record)
    if record.probes:
        last = record.probes[-1]
        rate = last.verdict["misses"]["rate"]
        missed = "no frame fell due" if rate is None else f"{percent(rate)} missed"
        return f"{last.sessions} sessions: {last.outcome}, {missed}"
    return f"{record.kind}: nothing measured"


def _runs(record: Record) -> list[tuple[str, ...]]:
    return [
        (
            str(probe.index),
            str(probe.sessions),
            probe.outcome,
            f"{probe.span_seconds:.0f} of {probe.wall_seconds:.0f}",
            "; ".join(probe.reasons),
        )
        for probe in record.probes
    ]


def _facts(record: Record) -> list[tuple[str, Any]]:
    machine = record.environment
    versions = ", ".join(f"{name} {version}" for name, version in sorted(machine.versions.items()))
    shares = record.probes[-1].cpu_shares if record.probes else {}
    return [
        ("command", " ".join(record.command)),
        ("started", record.created),
        ("took", seconds(record.wall_seconds)),
        *((key, value) for key, value in record.setting.items() if key != "clips"),
        ("seed", record.seed),
        ("CPU of the last run", ", ".join(f"{name} {percent(share, 0)}" for name, share in shares.items())),
        ("machine", f"{machine.cpu}, {machine.cores} cores, {machine.memory_bytes / 2**30:.0f} GiB, {machine.system}"),
        ("GPUs", ", ".join(machine.gpus) or "none"),
        ("versions", versions),
    ]


def _table(headings: tuple[str, ...], lines: list[tuple[str, ...]]) -> str:
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _pairs(pairs: list[tuple[str, Any]]) -> str:
    body = "".join(
        f'<tr><th scope="row">{escape(str(key))}</th><td>{escape(str(value))}</td></tr>' for key, value in pairs
    )
    return f'<table class="left"><tbody>{body}</tbody></table>'
