"""City codes on the command line."""

from __future__ import annotations

import argparse


def city_codes(text: str) -> list[str]:
    """Parse `DFW,SEA`; lower case is accepted, and duplicates count once."""
    codes = [code.strip().upper() for code in text.split(",") if code.strip()]
    for code in codes:
        if len(code) != 3 or not (code.isascii() and code.isalpha()):
            raise argparse.ArgumentTypeError(f"{code!r} is not an IATA code of three letters, such as DFW")
    if not codes:
        raise argparse.ArgumentTypeError("name at least one city, such as DFW")
    return list(dict.fromkeys(codes))


def city_code(text: str) -> str:
    """Parse one code."""
    codes = city_codes(text)
    if len(codes) != 1:
        raise argparse.ArgumentTypeError(f"{text!r} names several cities; one is wanted")
    return codes[0]
