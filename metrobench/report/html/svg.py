"""What matplotlib writes, made fit to stand inside a page: colours of the page, identifiers of its own, no request."""

from __future__ import annotations

import re
from html import escape

COLOURS = {
    name: f"#01{place:02x}fe"
    for place, name in enumerate(
        ("ink", "faint", "paper", "low", "high", "limit", "good", "bad", "void", "one", "two", "three", "four"), 1
    )
}
"""Name of a CSS variable to the colour that stands for it while matplotlib draws."""

_OUTSIDE = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", re.S)
_FONT = re.compile(r"font: (?:[\w.%-]+ )*?([\d.]+px) [^;\"]*")
_HEAD = re.compile(r"<svg\b[^>]*?viewBox=\"([^\"]*)\"[^>]*>", re.S)


def inline(drawn: str, key: str, title: str, summary: str) -> str:
    """The figure as an element of a page. `key`: letters and digits, unlike that of every other figure of the page;
    `summary`: what it shows, for those who cannot see it."""
    text = _OUTSIDE.sub("", drawn)
    for name, colour in COLOURS.items():
        text = text.replace(colour, f"var(--{name})")
    text = re.sub(r'\bid="', f'id="{key}-', text)
    text = re.sub(r'(xlink:href="#|url\(#)', rf"\1{key}-", text)
    text = text.replace("xlink:href", "href")
    text = _FONT.sub(r"font-size: \1", text)
    head = (
        f'<svg class="plot" viewBox="\\1" role="img" aria-label="{_safe(title)}: {_safe(summary)}">'
        f"<title>{_safe(title)}</title>"
    )
    return _HEAD.sub(head, text, count=1).strip()


def _safe(text: str) -> str:
    """For an attribute, and for the replacement of a regular expression."""
    return escape(text).replace("\\", "\\\\")
