"""Values of scalars in the YAML that Kubernetes reads: the rules of YAML 1.1 in the Go library behind it.

They differ from PyYAML's: `y` and `n` are booleans, `1e3` is a number, dates stay text, and keys of any scalar type
become strings.
"""

from __future__ import annotations

import math
import re
from base64 import b64decode
from typing import Any

import yaml

from tarmac.api.decode.jsontext import Malformed
from tarmac.api.schema import Json

_BOOLEANS = {
    word: truth
    for truth, names in ((True, ("y", "yes", "true", "on")), (False, ("n", "no", "false", "off")))
    for name in names
    for word in ({name, name.upper()} if len(name) == 1 else {name, name.capitalize(), name.upper()})
}
_NULLS = {"", "~", "null", "Null", "NULL"}
_INFINITIES = {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF", ".nan", ".NaN", ".NAN"}
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# A decimal that begins with 0 is none: with an 8 or 9 it is a float, as in Go.
_INTEGER = re.compile(r"([-+]?)(0b[01]+|0x[0-9a-fA-F]+|0o?[0-7]+|0|[1-9][0-9]*)")
_MAX_INTEGER_DIGITS = 64  # digits; no field takes a longer one, and parsing them takes time
_RESOLVED = frozenset(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null"))
_BINARY = "tag:yaml.org,2002:binary"


def is_plain(event: yaml.ScalarEvent) -> bool:
    """Return True if a scalar has neither quotes nor a tag, so that its text determines its type."""
    return bool(event.implicit[0])


def scalar(event: yaml.ScalarEvent) -> Json:
    """Return the value of a scalar. Raises Malformed."""
    text: str = event.value
    if event.tag == _BINARY:
        return _binary(text)
    if not is_plain(event) and event.tag not in _RESOLVED:
        return text
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    return _number(text)


def key(value: Json, line: int) -> str:
    """Return the value of a key as text. Raises Malformed."""
    if value is None or isinstance(value, dict | list):
        raise Malformed(f"yaml: line {line}: unsupported map key")
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def _binary(text: str) -> str:
    try:
        return b64decode(text).decode("utf-8", "replace")
    except ValueError:
        raise Malformed("yaml: !!binary value contains invalid base64 data") from None


def _number(text: str) -> Any:
    if text in _INFINITIES:
        raise Malformed(f"yaml: {text} cannot be a JSON value")
    plain = text.replace("_", "") if text[:1] in "+-.0123456789" else text
    match = _INTEGER.fullmatch(plain)
    if match and len(plain) <= _MAX_INTEGER_DIGITS:
        sign, digits = match.groups()
        base = {"0b": 2, "0x": 16, "0o": 8}.get(digits[:2], 8 if digits[0] == "0" and len(digits) > 1 else 10)
        number = int(digits, base)
        return -number if sign == "-" else number
    if _FLOAT.fullmatch(plain):
        number = float(plain)
        return number if math.isfinite(number) else text
    return text
