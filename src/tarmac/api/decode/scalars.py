"""Scalars with rules of their own: times, quantities, bytes. Each function returns the form that Go would store.

They raise ValueError with the messages of Go's standard library, because Kubernetes passes those on to the client.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from datetime import datetime

from tarmac.base.boundedcache import bounded_cache
from tarmac.base.clock import parse_rfc3339, rfc3339
from tarmac.base.quantity import Quantity

_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_MICROS = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{6})(Z|[+-]\d\d:\d\d)", re.ASCII)

# elements of Go's reference time, and the pattern of a value in their place
_DATE = [("2006", r"\d{4}"), ("-", "-"), ("01", r"\d\d"), ("-", "-"), ("02", r"\d\d"), ("T", "T"), ("15", r"\d\d"),
         (":", ":"), ("04", r"\d\d"), (":", ":"), ("05", r"\d\d")]  # fmt: skip
_ZONE = [("Z07:00", r"Z|[+-]\d\d:\d\d")]
_FRACTION = [(".000000", r"\.\d{6}")]
_OPTIONAL_FRACTION = [("", r"(?:[.,]\d+)?")]
_RANGES = {"01": (1, 12, "month"), "02": (1, 31, "day"), "15": (0, 23, "hour"), "04": (0, 59, "minute"),
           "05": (0, 59, "second")}  # fmt: skip


def time(text: str) -> str:
    """Return RFC 3339 in whole seconds, UTC."""
    if _SECONDS.fullmatch(text):
        try:
            datetime.fromisoformat(text[:-1])
        except ValueError:
            raise ValueError(_time_error(text, _DATE + _OPTIONAL_FRACTION + _ZONE)) from None
        return text
    try:
        return rfc3339(parse_rfc3339(text))
    except ValueError:
        raise ValueError(_time_error(text, _DATE + _OPTIONAL_FRACTION + _ZONE)) from None


def micro_time(text: str) -> str:
    """Return RFC 3339 with exactly six digits of fraction, UTC."""
    match = _MICROS.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        whole = rfc3339(parse_rfc3339(match[1] + match[3]))
    except ValueError:
        raise ValueError(_time_error(text, _DATE + _FRACTION + _ZONE)) from None
    return f"{whole[:-1]}{match[2]}Z"


def _time_error(text: str, layout: list[tuple[str, str]]) -> str:
    head = f'parsing time "{text}"'
    rest = text
    for piece, pattern in layout:
        match = re.match(pattern, rest, re.ASCII)
        if match is None:
            return f'{head} as "{"".join(name for name, _ in layout)}": cannot parse "{rest}" as "{piece}"'
        low, high, what = _RANGES.get(piece, (0, 0, ""))
        if what and not low <= int(match[0]) <= high:
            return f"{head}: {what} out of range"
        rest = rest[match.end() :]
    return f'{head}: extra text: "{rest}"' if rest else f"{head}: day out of range"


@bounded_cache(4096)
def quantity(value: str | int | float) -> str:
    """Return the canonical form: `1000m` becomes `1`."""
    return str(Quantity.parse(value))


_ALPHABET = "[A-Za-z0-9+/]"
_BASE64 = re.compile(f"{_ALPHABET}*={{0,2}}")
_GROUPS = re.compile(f"(?:{_ALPHABET}{{4}})*")
_LETTERS = re.compile(f"{_ALPHABET}*")


def base64(text: str) -> str:
    """Return standard base64 as Go accepts it (line breaks are ignored) and as Go writes it (unused bits are zero)."""
    if "\n" in text or "\r" in text:
        text = text.replace("\n", "").replace("\r", "")
    if len(text) % 4 or not _BASE64.fullmatch(text):
        raise ValueError(f"illegal base64 data at input byte {_first_illegal(text)}")
    return text[:-4] + b64encode(b64decode(text[-4:])).decode() if text.endswith("=") else text


def _first_illegal(text: str) -> int:
    """Return the position of Go's decoding error: a bad character, a truncated group's start, or after the padding."""
    start = _prefix(_GROUPS, text, 0)
    end = _prefix(_LETTERS, text, start)
    padding = text[end : end + 4 - (end - start)]
    if end == len(text):
        return start
    if end - start < 2 or not padding.startswith("="):
        return end
    if end - start == 2 and padding != "==":
        return len(text) if padding == "=" else end
    return start + 4


def _prefix(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start
