"""Damage to bytes: bits, runs, copies, lengths and numbers at their extremes; and to JSON, one value at a time.

Everything comes from one seeded source, so a number always means the same case.
"""

from __future__ import annotations

import json
import random
import re

from tests.fuzz.objects import ODD_NUMBERS, ODD_STRINGS

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null')
_EXTREMES = [
    b"\x00",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x7f\xff\xff\xff",
    b"\xc0\x0c",
]
_ODD = [*ODD_STRINGS, *ODD_NUMBERS, None, True, [], {}, [None], {"": None}]
_VALUES = [json.dumps(value).encode() for value in _ODD] + [
    b"9" * 400,
    b"1e999",
    b"-0",
    b"0.1e-400",
    b'"' + b"9" * 5000 + b'"',
    b"[" * 200 + b"]" * 200,
    b'{"a":1,"a":2}',
    b'"\\ud800"',
    b'"10.0.0.0/08"',
    b'"2026-13-45T99:99:99Z"',
]


def damaged(data: bytes, dice: random.Random, times: int = 4) -> bytes:
    """Return the bytes with a few errors."""
    made = bytearray(data)
    for _ in range(dice.randint(1, times)):
        place = dice.randrange(len(made) + 1)
        match dice.randrange(7):
            case 0 if made:
                made[place % len(made)] ^= 1 << dice.randrange(8)
            case 1:
                del made[place : place + dice.choice((1, 2, 8, 64))]
            case 2:
                made[place:place] = made[place : place + dice.choice((1, 4, 32))]
            case 3:
                made[place:place] = dice.choice(_EXTREMES)
            case 4:
                extreme = dice.choice(_EXTREMES)
                made[place : place + len(extreme)] = extreme
            case 5:
                made[place:place] = dice.randbytes(dice.choice((1, 3, 16)))
            case _:
                del made[max(place, 1) :]
    return bytes(made)


def misvalued(text: bytes, dice: random.Random) -> bytes:
    """Return JSON with a value or two replaced; mostly still JSON, so it gets further than noise does."""
    for _ in range(dice.randint(1, 2)):
        tokens = list(_TOKEN.finditer(text))
        if not tokens:
            return text
        token = dice.choice(tokens)
        text = text[: token.start()] + dice.choice(_VALUES) + text[token.end() :]
    return text
