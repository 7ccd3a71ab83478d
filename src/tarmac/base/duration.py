"""Durations as Kubernetes writes them: Go's `1h30m0s` in objects and flags, `5d3h` in an AGE column."""

from __future__ import annotations

import re
from typing import Final

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # micro sign
    "μs": 10**3,  # Greek mu
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_MAX_NANOS = 2**63 - 1  # Go's int64 of nanoseconds, about 292 years
_MAX_LENGTH: Final = 256  # characters
_MAX_QUOTED: Final = 40
MAX_SECONDS: Final = _MAX_NANOS // 10**9
"""The longest wait, in whole seconds, that a Go program can represent; a later end has no calendar time."""

_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)", re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds of a Go duration such as `1h30m` or `-1.5s`. Raises ValueError worded as Go words it."""
    if len(text) > _MAX_LENGTH:  # parsing adds up one part after another: megabytes of parts would hold the loop
        raise ValueError(f'time: invalid duration "{text[:_MAX_QUOTED]}…": longer than {_MAX_LENGTH} characters')
    rest = text[1:] if text[:1] in {"+", "-"} else text
    if rest == "0":
        return 0.0
    if not rest:
        raise ValueError(f'time: invalid duration "{text}"')
    nanos = 0
    position = 0
    while position < len(rest):
        match = _PART.match(rest, position)
        if match is None or not (match[1] or match[2]):
            raise ValueError(f'time: invalid duration "{text}"')
        nanos += _part(match, text)
        position = match.end()
    if nanos > _MAX_NANOS:
        raise ValueError(f'time: invalid duration "{text}"')
    return (-nanos if text[0] == "-" else nanos) / 10**9


def _part(match: re.Match[str], text: str) -> int:
    whole, fraction, unit = match[1] or "0", match[2] or "", match[3]
    if not unit:
        raise ValueError(f'time: missing unit in duration "{text}"')
    if unit not in _UNITS:
        raise ValueError(f'time: unknown unit "{unit}" in duration "{text}"')
    return int(whole + fraction) * _UNITS[unit] // 10 ** len(fraction)


def format_duration(seconds: float) -> str:
    """Format as Go does: `1h30m0s`, `1.5s`, `250ms`, `0s`."""
    nanos = round(seconds * 10**9)
    if nanos == 0:
        return "0s"
    sign, nanos = ("-", -nanos) if nanos < 0 else ("", nanos)
    if nanos < 10**9:
        unit = "ns" if nanos < 10**3 else "µs" if nanos < 10**6 else "ms"
        return f"{sign}{_decimal(nanos, _UNITS[unit])}{unit}"
    minutes, nanos = divmod(nanos, _UNITS["m"])
    hours, minutes = divmod(minutes, 60)
    large = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{large}{_decimal(nanos, 10**9)}s"


def _decimal(number: int, unit: int) -> str:
    whole, rest = divmod(number, unit)
    if rest == 0:
        return str(whole)
    return f"{whole}.{rest:0{len(str(unit)) - 1}d}".rstrip("0")


def human_duration(seconds: float) -> str:
    """Format an age with two or three significant figures, exactly as kubectl prints it."""
    total = int(seconds)
    if total < 120:
        return "<invalid>" if total < -1 else f"{max(total, 0)}s"
    minutes, hours = total // 60, total // 3600
    if minutes < 10:
        return _pair(minutes, "m", total % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    return f"{hours}h" if hours < 48 else _days(hours)


def _days(hours: int) -> str:
    days = hours // 24
    if days < 8:
        return _pair(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    return _pair(days // 365, "y", days % 365, "d") if days < 8 * 365 else f"{days // 365}y"


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
