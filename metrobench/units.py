"""Seconds and tokens inside; units only where people read or type."""

from __future__ import annotations

import math
import re

from metrobench.errors import UsageError

CHUNK = 0.020
"""Seconds of audio in one chunk on the wire."""

_DURATION_UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_NUMBER = r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)"


def parse_duration(text: str, *, name: str = "duration", low: float = 0.0, high: float = 86_400.0) -> float:
    """Seconds from `80ms`, `1s`, `5m`, `1m30s`; must lie in (low, high]. Raises UsageError."""
    cleaned = text.strip().replace(" ", "")
    parts = re.findall(_NUMBER + r"([a-zµ]+)", cleaned)
    if not parts or "".join(number + unit for number, unit in parts) != cleaned:
        raise UsageError(f"{name} {text!r} is not a time", "write a number with a unit, for example 80ms, 1s or 5m")
    total = 0.0
    for number, unit in parts:
        if unit not in _DURATION_UNITS:
            raise UsageError(f"{name} {text!r}: unknown unit {unit!r}", "units are ms, s, m and h")
        total += float(number) * _DURATION_UNITS[unit]
    if not low < total <= high:
        raise UsageError(f"{name} {text!r} is out of range", f"give more than {seconds(low)}, at most {seconds(high)}")
    return total


def parse_rate(text: str, *, name: str = "rate") -> float:
    """Fraction in (0, 1) from `1%` or `0.01`. Raises UsageError."""
    match = re.fullmatch(_NUMBER + r"\s*(%?)", text.strip())
    value = float(match[1]) / (100.0 if match[2] else 1.0) if match else math.nan
    if not 0.0 < value < 1.0:
        raise UsageError(f"{name} {text!r} is not a rate between 0 and 100 %", "write for example 1% or 0.01")
    return value


_PER = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}


def parse_frequency(text: str, *, name: str = "rate") -> float:
    """Events a second from `8/s`, `30/min` or `0.5/s`; 0.001 to 10,000. Raises UsageError."""
    match = re.fullmatch(_NUMBER + r"\s*/\s*(s|min|m|h)", text.strip())
    if match is None:
        raise UsageError(f"{name} {text!r} is not so many a time", "write for example 8/s or 30/min")
    value = float(match[1]) / _PER[match[2]]
    if not 1e-3 <= value <= 1e4:
        raise UsageError(f"{name} {text!r} is out of range", "give 0.001/s to 10000/s")
    return value


def parse_slo(text: str) -> tuple[float, float]:
    """Quantile and limit in seconds from `p99<=1s`. Raises UsageError."""
    match = re.fullmatch(r"p(\d{1,2}(?:\.\d+)?)\s*<=?\s*(\S+)", text.strip())
    if not match or not 0.0 < float(match[1]) < 100.0:
        raise UsageError(f"--slo {text!r} is not an objective", 'write for example "p99<=1s"')
    return float(match[1]) / 100.0, parse_duration(match[2], name="--slo limit")


def parse_decibels(text: str, *, name: str, low: float, high: float) -> float:
    """dB from `10dB`, `-3.5 dB` or `6`; must lie in [low, high]. Raises UsageError."""
    match = re.fullmatch(r"([+-]?)" + _NUMBER + r"\s*(?:dB)?", text.strip(), re.IGNORECASE)
    if not match:
        raise UsageError(f"{name} {text!r} is not a level", "write for example 10dB or -3dB")
    value = float(match[1] + match[2])
    if not low <= value <= high:
        raise UsageError(f"{name} {text!r} is out of range", f"give {low:g}dB to {high:g}dB")
    return value


_BYTE_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


def parse_size(text: str, *, name: str = "size") -> int:
    """Bytes from `200MB`, `1.5 GB` or `4096`; at least one. Raises UsageError."""
    match = re.fullmatch(_NUMBER + r"\s*([kmg]?)b?", text.strip(), re.IGNORECASE)
    value = round(float(match[1]) * _BYTE_UNITS[match[2].lower()]) if match else 0
    if value < 1:
        raise UsageError(f"{name} {text!r} is not a size", "write for example 200MB or 1GB")
    return value


def data_size(count: float) -> str:
    """Bytes for people: `640 B`, `1.5 MB`, `338 MB`."""
    for unit, bytes_in_one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 0.9995 * bytes_in_one:
            return f"{count / bytes_in_one:.3g} {unit}"
    return f"{count:.0f} B"


def seconds(value: float) -> str:
    """A duration for people: `0.2 ms`, `480 ms`, `1 s`, `2 min 50 s`."""
    length = abs(value)
    if length < 0.010:
        return f"{value * 1e3:.1f} ms"
    if length < 1.0:
        return f"{value * 1e3:.0f} ms"
    if length < 60.0:
        return f"{value:.0f} s" if abs(value - round(value)) < 0.005 else f"{value:.3g} s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    minutes = round(value / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"


def counted(text: str, noun: str) -> str:
    """A text about frames, for what is counted in their place: `3 frames missed` becomes `3 turns missed`."""
    if noun == "frame":
        return text
    return re.sub(r"\b([Ff])rame(s?)\b", lambda m: (noun.capitalize() if m[1] == "F" else noun) + m[2], text)


def rate(fraction: float) -> str:
    """A rate as it was typed: `1 %`, `0.5 %`."""
    return f"{fraction * 100:.6g} %"


def percent(fraction: float, digits: int = 1) -> str:
    """A fraction for people: `0.3 %`."""
    return f"{fraction * 100:.{digits}f} %"


def memory(size: float) -> str:
    """Bytes for people, in binary units: `144 KiB`, `93.8 MiB`, `1.5 GiB`."""
    units = ["B", "KiB", "MiB", "GiB"]
    while abs(size) >= 1000.0 and len(units) > 1:
        size /= 1024.0
        del units[0]
    return f"{size:.3g} {units[0]}"
