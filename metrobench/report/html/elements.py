"""The pieces of a page. Every word passes through `escape` here, whoever it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from urllib.parse import quote

from metrobench.report.html.style import POLICY, STYLE

Cells = Sequence[str]
Coloured = tuple[str, str]
"""A word and its class."""


def document(title: str, header: str, main: str, footer: str) -> str:
    """The whole page."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head>\n<body>\n<header>{header}</header>\n<main>{main}</main>\n"
        f"<footer>{footer}</footer>\n</body></html>\n"
    )


def section(heading: str, *parts: str) -> str:
    """A part of the page under its heading; empty where nothing is in it."""
    body = "\n".join(part for part in parts if part)
    return f"<section><h2>{escape(heading)}</h2>\n{body}\n</section>\n" if body else ""


def paragraph(text: str, kind: str = "") -> str:
    """One paragraph, with a class where `kind` is given."""
    return f"<p{_class(kind)}>{escape(text)}</p>" if text else ""


def headline(text: str) -> str:
    """The one main heading of a page."""
    return f"<h1>{escape(text)}</h1>"


def subheading(text: str) -> str:
    """A heading inside a section."""
    return f"<h3>{escape(text)}</h3>"


def code(text: str) -> str:
    """A command line."""
    return f"<pre><code>{escape(text)}</code></pre>"


def table(
    caption: str,
    headings: Cells,
    lines: Iterable[Sequence[str | Coloured]],
    text: frozenset[int] = frozenset(),
    under: Sequence[str] = (),
) -> str:
    """A table whose first column names its rows.

    `text`: columns of words, aligned left. `under`: for each line the words below it over all columns, if any.
    """
    lines = list(lines)
    if not lines:
        return ""
    kinds = ["text" if column in text else "" for column in range(len(headings))]
    head = "".join(
        f'<th scope="col"{_class(kind)}>{escape(word)}</th>' for word, kind in zip(headings, kinds, strict=True)
    )
    below = [_below(words, len(headings)) for words in under] or [""] * len(lines)
    body = "".join(
        f"<tr{_class('led' if more else '')}>{_row(line, kinds)}</tr>{more}"
        for line, more in zip(lines, below, strict=True)
    )
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}"><table class="data">'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _below(words: str, columns: int) -> str:
    return f'<tr><td colspan="{columns}" class="under"><div>{escape(words)}</div></td></tr>' if words else ""


def pairs(caption: str, lines: Iterable[tuple[str, str]]) -> str:
    """Names and values."""
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="text">{escape(value)}</td></tr>' for name, value in lines
    )
    return f'<table class="pairs"><caption>{escape(caption)}</caption><tbody>{body}</tbody></table>' if body else ""


def items(lines: Iterable[str]) -> str:
    """A list."""
    body = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{body}</ul>" if body else ""


def details(summary: str, body: str) -> str:
    """Shown on demand, by mouse or keyboard."""
    return f"<details><summary>{escape(summary)}</summary>{body}</details>" if body else ""


def figure(title: str, drawing: str, caption: str, rows: str) -> str:
    """A plot, what it shows, and the rows behind it."""
    return (
        f"<figure><h3>{escape(title)}</h3>{drawing}<figcaption>{escape(caption)}</figcaption>"
        f"{details('The numbers behind it', rows)}</figure>"
    )


def download(name: str, headings: Cells, lines: Iterable[Cells]) -> str:
    """A CSV file inside the page."""
    text = "\n".join(",".join(line) for line in (headings, *lines)) + "\n"
    data = quote(text, safe=",.-:()")
    return f'<p><a download="{escape(name)}" href="data:text/csv;charset=utf-8,{data}">{escape(name)}</a></p>'


def _row(line: Sequence[str | Coloured], kinds: list[str]) -> str:
    cells = []
    for place, (cell, kind) in enumerate(zip(line, kinds, strict=True)):
        word, own = cell if isinstance(cell, tuple) else (cell, "")
        tag = 'th scope="row"' if place == 0 else "td"
        cells.append(f"<{tag}{_class(f'{kind} {own}'.strip())}>{_unbroken(word)}</{tag[:2]}>")
    return "".join(cells)


def _unbroken(word: str) -> str:
    """A number stays with its unit."""
    return escape(word).replace(" %", "\u00a0%")


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
