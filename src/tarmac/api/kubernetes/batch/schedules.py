"""Cron schedules: five fields or a descriptor, checked with the messages of Kubernetes' parser."""

from __future__ import annotations

from typing import Final, NamedTuple

from tarmac.base.digits import whole_number
from tarmac.base.duration import parse_duration

_MAX_LENGTH: Final = 1000  # longer schedules are refused before they are parsed
_DESCRIPTORS: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_INTERVAL_PREFIX: Final = "@every "
_MAX_NUMBER: Final = 2**31 - 1


class _Field(NamedTuple):
    lowest: int
    highest: int
    names: tuple[str, ...] = ()


_FIELDS: Final = (
    _Field(0, 59),
    _Field(0, 23),
    _Field(1, 31),
    _Field(1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    _Field(0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)


def schedule_error(text: str) -> str | None:
    """Return the reason why a schedule is malformed, or None."""
    if len(text) > _MAX_LENGTH:
        return f"must be at most {_MAX_LENGTH} characters"
    try:
        _check(text)
    except ValueError as error:
        return str(error)
    return None


def _check(text: str) -> None:
    if not text:
        raise ValueError("empty spec string")
    if text.startswith("@"):
        _check_descriptor(text)
        return
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise ValueError(f"expected exactly {len(_FIELDS)} fields, found {len(parts)}: [{' '.join(parts)}]")
    for part, field in zip(parts, _FIELDS, strict=True):
        for expression in part.split(","):
            if expression:  # an empty one is ignored, as in Kubernetes
                _check_range(expression, field)


def _check_descriptor(text: str) -> None:
    if text in _DESCRIPTORS:
        return
    if not text.startswith(_INTERVAL_PREFIX):
        raise ValueError(f"unrecognized descriptor: {text}")
    try:
        parse_duration(text.removeprefix(_INTERVAL_PREFIX))
    except ValueError as error:
        raise ValueError(f"failed to parse duration {text}: {error}") from None


def _check_range(expression: str, field: _Field) -> None:
    bounds, *steps = expression.split("/")
    low, *high = bounds.split("-")
    single = not high
    if low in ("*", "?"):
        start, end, single = field.lowest, field.highest, False
    else:
        start = _number(low, field)
        if len(high) > 1:
            raise ValueError(f"too many hyphens: {expression}")
        end = _number(high[0], field) if high else start
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {expression}")
    step = _integer(steps[0]) if steps else 1
    if steps and single:
        end = field.highest
    if start < field.lowest:
        raise ValueError(f"beginning of range ({start}) below minimum ({field.lowest}): {expression}")
    if end > field.highest:
        raise ValueError(f"end of range ({end}) above maximum ({field.highest}): {expression}")
    if start > end:
        raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {expression}")
    if not step:
        raise ValueError(f"step of range should be a positive number: {expression}")


def _number(text: str, field: _Field) -> int:
    name = text.lower()
    return field.names.index(name) + field.lowest if name in field.names else _integer(text)


def _integer(text: str) -> int:
    number = whole_number(text, _MAX_NUMBER)
    if number is None:
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    return number
