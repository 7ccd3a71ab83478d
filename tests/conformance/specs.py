"""The specs that run, and those that are known to fail, with their causes.

`specs.txt` names the specs of the conformance suite of Kubernetes 1.35 that need neither the output of a program in a
container nor packets between pods: simulated nodes have neither.
"""

from __future__ import annotations

import re
from pathlib import Path

_LIST = Path(__file__).parent / "specs.txt"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "conformance.md"
_ROW = re.compile(r"^\| (\[sig-.*?) \| (.+) \|$", re.MULTILINE)
_SPECIAL = re.compile(r"[.+*?()|\[\]{}^$\\]")


def listed() -> list[str]:
    """The specs, by their full names."""
    return _LIST.read_text().splitlines()


def documented_failures() -> dict[str, str]:
    """The cause of each spec that fails, from the page."""
    return {spec.replace(r"\|", "|"): cause for spec, cause in _ROW.findall(PAGE.read_text())}


def focus(spec: str) -> str:
    """The regular expression, in Go's syntax, that selects this spec alone."""
    return _SPECIAL.sub(lambda found: f"\\{found[0]}", spec) + "$"


def serial(spec: str) -> bool:
    """Return true if no other spec may run beside it."""
    return "[Serial]" in spec or "[Disruptive]" in spec
