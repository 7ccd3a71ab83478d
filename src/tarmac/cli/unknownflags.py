"""Handles unknown flags.

Only `tarmac agent` accepts them, with a warning: a node with flags newer than its agent, after a downgrade, still
starts. But a flag that looks like a known one was mistyped, and a node that starts without it may be sized wrongly:
that is refused, and so is a word that belongs to no flag.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tarmac.base.typos import closest_name


class BadFlag(ValueError):
    """The command line is wrong. The message names the word and the accepted form."""


def unknown_flags(words: Sequence[str], unrecognised: Sequence[str], known: Sequence[str]) -> Iterator[str]:
    """Yield unknown flags as they were written, with their values. `unrecognised`: words left over by argparse.

    Raises BadFlag.
    """
    left = list(unrecognised)
    for word, following in zip(words, [*words[1:], "-"], strict=True):
        if not left or word != left[0]:
            continue
        left.pop(0)
        if not word.startswith("-") or not word.strip("-"):
            raise BadFlag(f"unrecognized arguments: {word}")
        _check(word.partition("=")[0], known)
        if "=" not in word and not following.startswith("-"):
            left.pop(0)
            word = f"{word} {following}"
        yield word


def _check(flag: str, known: Sequence[str]) -> None:
    if near := closest_name(flag, known):
        raise BadFlag(f"there is no flag {flag}; did you mean {near}?")
    contained = [each for each in known if each.removeprefix("--") in flag]
    if contained:
        raise BadFlag(f"there is no flag {flag}; did you mean {max(contained, key=len)}?")
