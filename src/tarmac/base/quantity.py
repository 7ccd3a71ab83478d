"""Kubernetes quantities: exact numbers with a unit suffix, such as `500m`, `1536Mi`, `2e3`.

A value is a whole number of nanos; anything finer is rounded up (away from zero) while parsing, so a small request
never becomes zero. A quantity keeps the suffix family it was written in (decimal `k M G`, binary `Ki Mi Gi`, exponent
`e3`) and prints in its canonical form in that family: the largest suffix with no fraction. Text that was canonical
already is kept as it was written. Equality and order compare the number only.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import total_ordering
from typing import Final

from tarmac.base.boundedcache import bounded_cache

NANO: Final = 10**9
_MAX_INT64 = 2**63 - 1
# Larger exponents are refused, so that twelve bytes of input cannot cause a computation with gigabytes.
_MAX_EXPONENT = 1000
_FAST_DIGITS = 18
_MAX_LENGTH = 1024  # characters

_SPLIT = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_FORMAT_ERROR = f"quantities must match the regular expression '{_SPLIT}'"
_NUMERIC_ERROR = "unable to parse numeric part of quantity"
_LENGTH_ERROR = f"unable to parse quantity: longer than {_MAX_LENGTH} characters"
_SUFFIX_ERROR = "unable to parse quantity's suffix"

# The scanner is laxer than the documented expression: the number may be empty ("m" is zero). Possessive quantifiers do
# not backtrack, so a mismatch costs no more than its length.
_SCAN = re.compile(r"([+-]?)(0*+)([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[-+]?[0-9]*+)", re.ASCII)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)


class Format(Enum):
    """The suffix family a quantity is printed in."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = ["", *_BINARY]
_MAX_THOUSANDS = 9  # from nanos to the largest suffix, E


@total_ordering
class Quantity:
    """An immutable, exact amount."""

    __slots__ = ("_text", "format", "nanos")

    def __init__(self, nanos: int, format: Format = Format.DECIMAL_SI, text: str | None = None) -> None:
        self.nanos: Final = nanos
        self.format: Final = format
        self._text = text

    @staticmethod
    def parse(value: str | int | float) -> Quantity:
        """Parse a JSON value: a string with a suffix, or a number. Raises ValueError worded as Kubernetes words it."""
        if isinstance(value, bool):
            raise ValueError(_FORMAT_ERROR)  # noqa: TRY004 - every unreadable quantity is the same error
        return _parse(value.strip() if isinstance(value, str) else str(value))

    @staticmethod
    def of(value: int, format: Format = Format.DECIMAL_SI) -> Quantity:
        """Return a whole number of units."""
        return Quantity(value * NANO, format)

    def __str__(self) -> str:
        if self._text is None:
            self._text = _canonical(self)
        return self._text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos, self.format if self.nanos else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self.format if self.nanos else other.format)

    def __mul__(self, factor: int) -> Quantity:
        return Quantity(self.nanos * factor, self.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nanos, self.format)

    def value(self) -> int:
        """Whole units, rounded away from zero."""
        return _divide_up(self.nanos, NANO)

    def milli(self) -> int:
        """Thousandths, rounded away from zero."""
        return _divide_up(self.nanos, 10**6)

    def is_integer(self) -> bool:
        """True for a whole number of units."""
        return self.nanos % NANO == 0


ZERO: Final = Quantity(0)


def six_places(number: int, divisor: int) -> str:
    """Format the quotient of two positive amounts as Go's %f does, without a float: it may be larger than any."""
    whole, rest = divmod((2 * number * 10**6 + divisor) // (2 * divisor), 10**6)
    return f"{whole}.{rest:06d}"


def _divide_up(number: int, divisor: int) -> int:
    return -(-number // divisor) if number >= 0 else number // divisor


@bounded_cache(4096)
def _parse(text: str) -> Quantity:
    if not text:
        raise ValueError(_FORMAT_ERROR)
    if len(text) > _MAX_LENGTH:  # before parsing: thousands of quantities with thousands of digits hold the loop
        raise ValueError(_LENGTH_ERROR)
    match = _SCAN.fullmatch(text)
    if match is None:
        raise ValueError(_FORMAT_ERROR)
    sign, zeros, whole, fraction, suffix = match.groups()
    factor, exponent, family = _interpret(suffix)
    whole, fraction = whole or "0", fraction or ""
    kept = _reusable(text, whole, fraction, factor, exponent, family)
    if kept is None and not (zeros or match[3] or fraction):
        raise ValueError(_NUMERIC_ERROR)
    magnitude = _magnitude(int(whole + fraction) * factor, exponent - len(fraction))
    if family is Format.BINARY_SI:
        magnitude = min(magnitude, _MAX_INT64 * NANO)
        if 0 < magnitude < NANO:
            family = Format.DECIMAL_SI
    return Quantity(-magnitude if sign == "-" else magnitude, family, kept or None)


def _interpret(suffix: str) -> tuple[int, int, Format]:
    """Return binary factor, decimal exponent and family of a suffix."""
    if suffix in _DECIMAL:
        return 1, _DECIMAL[suffix], Format.DECIMAL_SI
    if suffix in _BINARY:
        return 1 << _BINARY[suffix], 0, Format.BINARY_SI
    match = _EXPONENT.fullmatch(suffix)
    if match is None or len(match[1]) > 5 or abs(int(match[1])) > _MAX_EXPONENT:
        raise ValueError(_SUFFIX_ERROR)
    return 1, int(match[1]), Format.DECIMAL_EXPONENT


def _magnitude(digits: int, exponent: int) -> int:
    """Return digits * 10^exponent in nanos, rounded up."""
    scale = exponent + 9
    return digits * 10**scale if scale >= 0 else -(-digits // 10**-scale)


def _reusable(text: str, whole: str, fraction: str, factor: int, exponent: int, format: Format) -> str | None:
    """Return the text if it may be kept as written; "" if it must be reprinted; None if it is beyond the short form.

    Kubernetes decides this by digit counts, not by comparing with the canonical form, and clients see the difference
    ("1.234" stays, "1.5" becomes "1500m"), so the same counts are used here.
    """
    if format is Format.BINARY_SI:
        bits = factor.bit_length() - 1
        if fraction or 14 - len(whole) - bits * 3 // 10 < 0:
            return None
        return text if int(whole) & 7 else ""
    scale = exponent - len(fraction)
    if len(whole) + len(fraction) > _FAST_DIGITS or scale < -9:
        return None
    shifted = whole + fraction
    return text if scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0" else ""


def _canonical(quantity: Quantity) -> str:
    nanos, family = quantity.nanos, quantity.format
    if nanos == 0:
        return "0"
    if family is Format.BINARY_SI and abs(nanos) >= 1024 * NANO and nanos % NANO == 0:
        return _canonical_binary(nanos // NANO)
    digits = str(nanos)  # counts zeros once: repeated division of a thousand digits takes a fifth of a millisecond
    thousands = (len(digits) - len(digits.rstrip("0"))) // 3
    if family is not Format.DECIMAL_EXPONENT:
        thousands = min(thousands, _MAX_THOUSANDS)
    nanos //= 1000**thousands
    exponent = 3 * thousands - 9
    if family is Format.DECIMAL_EXPONENT:
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{_DECIMAL_SUFFIX[exponent]}"


def _canonical_binary(value: int) -> str:
    power = 0
    while value % 1024 == 0 and power < len(_BINARY_SUFFIX) - 1:
        value //= 1024
        power += 1
    return f"{value}{_BINARY_SUFFIX[power]}"
