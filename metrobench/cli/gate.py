"""`metrobench gate`: records against a baseline, by rules. Never measures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from metrobench.cli import options

if TYPE_CHECKING:
    from metrobench.gate.findings import Verdict
    from metrobench.gate.rules import Policy
    from metrobench.gate.samples import Sample

FORMATS = ("terminal", "md", "junit", "json", "github")
SUFFIXES = {".xml": "junit", ".md": "md", ".json": "json", ".txt": "terminal"}
"""Ending of a file after --out to its format."""


@click.command()
@click.argument("run", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    metavar="FILE|DIR",
    help="What to compare with: a file written with --update, a run folder, or a folder of them.",
)
@click.option(
    "--policy",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML file of rules. [default: [tool.metrobench.gate] in pyproject.toml, else mscs max_drop 15%,"
    " miss_rate max 1%, collapse none]",
)
@click.option("--allow", multiple=True, metavar="NAME", help="Compare although this condition differs; repeatable.")
@click.option("--strict", is_flag=True, help="Exit 1, not 3, where it cannot tell.")
@click.option("--update", is_flag=True, help="Write RUN to the file --baseline instead of comparing.")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="terminal", show_default=True, help="On standard output."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Write to this file too: .xml (JUnit), .md, .json or .txt; repeatable.",
)
@options.debug
def gate(
    run: tuple[Path, ...],
    baseline: Path | None,
    policy: Path | None,
    allow: tuple[str, ...],
    strict: bool,
    update: bool,
    form: str,
    out: tuple[Path, ...],
) -> None:
    """Is this no worse than the baseline? For CI.

    RUN is a run folder, its run.json, or a folder of run folders; several are replicates. Without RUN: the newest run
    under reports/. Of records that were measured with --interleave, A is the baseline of B.

    Exit codes: 0 pass, 1 fail, 2 wrong input, 3 cannot tell.
    """
    from metrobench.cli.files import write_whole
    from metrobench.cli.output import say
    from metrobench.gate.findings import exit_code
    from metrobench.gate.judge import judge

    allowed = _names(allow)
    forms = {file: _form(file) for file in out}
    rules = _policy(policy)
    samples = _samples(run, forecast=any(rule.metric == "forecast" for rule in rules.rules) and not update)
    if update:
        sys.exit(_update(samples, baseline))
    before, now = _sides(samples, baseline, rules)
    verdict = judge(rules, before, now, allowed)
    code = exit_code(verdict.answer, strict)
    for file, each in forms.items():
        write_whole(file, [_render(each, verdict, code)])
    say(_render(form, verdict, code).removesuffix("\n"))
    sys.exit(code)


def _policy(file: Path | None) -> Policy:
    """The rules: of the file, of this folder's settings, or the default ones. Raises UsageError."""
    import tomllib

    from metrobench.cli.config import gate_rules
    from metrobench.errors import UsageError
    from metrobench.gate.rules import default_policy, parse_policy

    if file is None:
        found = gate_rules(Path.cwd())
        return default_policy() if found is None else parse_policy(found[1], f"{found[0]}, gate")
    try:
        return parse_policy(tomllib.loads(file.read_text("utf-8")), str(file))
    except OSError as error:
        raise UsageError(f"--policy {file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"--policy {file} is not TOML: {error}") from error


def _samples(asked: tuple[Path, ...], forecast: bool = False) -> list[Sample]:
    """The records asked for, each once. Raises UsageError."""
    from metrobench.report.observe import observe
    from metrobench.report.stored import find, newest, open_record

    files = [file for path in asked for file in find(path)] if asked else [newest()]
    return [observe(open_record(file), forecast) for file in {file.resolve(): file for file in files}.values()]


def _sides(samples: list[Sample], baseline: Path | None, rules: Policy) -> tuple[list[Sample], list[Sample]]:
    """Baseline and current. Raises UsageError where a rule wants a baseline and there is none."""
    from metrobench.errors import UsageError
    from metrobench.gate.rules import RELATIVE
    from metrobench.report.baseline import samples_of

    if baseline is not None:
        return samples_of(baseline), samples
    if samples and all(sample.pair for sample in samples):
        sides = [[each for each in samples if each.pair and each.pair.side == side] for side in ("a", "b")]
        return sides[0], sides[1]
    if wanting := [rule.name for rule in rules.rules if rule.bound in RELATIVE]:
        hint = "write one with:  metrobench gate RUN... --baseline FILE --update"
        raise UsageError(f"{wanting[0]} needs --baseline", hint)
    return [], samples


def _update(samples: list[Sample], baseline: Path | None) -> int:
    """Write the baseline; the exit code. Raises UsageError, NotValidError."""
    from metrobench.cli.output import say
    from metrobench.errors import NotValidError, UsageError
    from metrobench.report import baseline as files

    if baseline is None or baseline.is_dir():
        raise UsageError("--update needs --baseline FILE, the file to write", "for example --baseline baseline.json")
    if partial := [each for each in samples if each.partial]:
        raise NotValidError(f"{partial[0].name} is no baseline: {partial[0].partial}", "measure it again")
    files.write(baseline, samples)
    kinds = ", ".join(sorted({each.kind for each in samples}))
    say(f"baseline of {len(samples)} record{'' if len(samples) == 1 else 's'} ({kinds}) written to {baseline}")
    if len(samples) == 1 and samples[0].kind == "capacity":
        say("note: 3 records or more make a baseline that a single later one can be told from")
    return 0


def _names(allow: tuple[str, ...]) -> set[str]:
    """The conditions of --allow. Raises UsageError."""
    import difflib

    from metrobench.errors import UsageError
    from metrobench.gate.comparability import NAMES

    names = {name.strip() for each in allow for name in each.split(",")}
    for name in sorted(names):
        if name not in NAMES:
            close = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(NAMES)}"
            raise UsageError(f"--allow {name!r} is no condition", hint)
    return names


def _form(file: Path) -> str:
    from metrobench.errors import UsageError

    if (form := SUFFIXES.get(file.suffix.lower())) is None:
        raise UsageError(f"--out {file}: its ending names no format", f"known: {', '.join(SUFFIXES)}")
    if file.is_dir():
        raise UsageError(f"--out {file} is a folder", f"name a file, for example {file / 'gate.xml'}")
    return form


def _render(form: str, verdict: Verdict, code: int) -> str:
    from metrobench.report.gate import annotations, jsonfile, junit, markdown, terminal

    renderers: dict[str, Any] = {
        "terminal": lambda: terminal.text(verdict) + "\n",
        "md": lambda: markdown.text(verdict) + "\n",
        "junit": lambda: junit.text(verdict, strict=code == 1),
        "json": lambda: jsonfile.text(verdict, code),
        "github": lambda: annotations.text(verdict, strict=code == 1),
    }
    return str(renderers[form]())
