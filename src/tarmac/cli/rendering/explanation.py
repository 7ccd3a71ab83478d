"""Explanations as text: the sentence, the verdicts by city and node or every path rule by rule, the smallest change."""

from __future__ import annotations

from tarmac.api.compute.explanations import Explanation, Reach, Reachability, ReachPath
from tarmac.cli.rendering.text import paragraph, printable, table

BY_RULES = "This follows from the rules alone: no packet was sent."
BY_PROBES = "This follows from the rules and the nodes' last tunnel probes: no packet was sent."
_PATH_HEADERS = ("RULE", "ANSWER", "REASON", "MESSAGE")
_HEADERS = ("CITY", "NODE", "RULE", "ANSWER", "REASON", "MESSAGE")


def explanation_text(found: Explanation) -> str:
    """Return the output of `tarmac why`."""
    rows = [(line.city, line.node, line.rule, line.answer, line.reason, line.message) for line in found.verdicts]
    parts = [paragraph(found.sentence), table(_HEADERS, rows) if rows else "", _advice(found)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _advice(found: Explanation) -> str:
    if found.change:
        return paragraph(f"Smallest change: {found.change}")
    answers = {line.answer for line in found.verdicts}
    return "" if answers <= {"Yes"} or "No" in answers else "Nothing to change: it goes on by itself."


def reachability_text(found: Reachability) -> str:
    """Return the output of `tarmac why --reach`."""
    back = ["", "The other way round:", "", *_parts(found.reverse)] if found.reverse is not None else []
    ways = (found, found.reverse) if found.reverse is not None else (found,)
    probed = any(line.rule == "tunnel" for way in ways for path in way.paths for line in path.lines)
    return "\n".join((*_parts(found), *back, "", BY_PROBES if probed else BY_RULES)) + "\n"


def _parts(found: Reach) -> list[str]:
    parts = [paragraph(found.sentence)]
    for path in found.paths:
        rows = [(line.rule, line.answer, line.reason, line.message) for line in path.lines]
        parts += ["", _title(path), table(_PATH_HEADERS, rows)]
    if found.change:
        # Unwrapped, in one line: it is to be copied.
        parts += ["", f"Smallest change: {printable(found.change)}"]
    return parts


def _title(path: ReachPath) -> str:
    ends = f"{path.source or '?'} → {path.target or '?'}"
    where = f" on {path.network}" if path.network else ""
    seen = f", seen as {path.seen_as}" if path.seen_as else ""
    return printable(f"{ends}{where}{seen}: {path.answer}")
