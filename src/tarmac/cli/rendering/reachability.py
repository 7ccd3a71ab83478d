"""A reachability result as text: the sentence, every path rule by rule, the smallest change."""

from __future__ import annotations

from tarmac.api.compute.explanations import Reach, Reachability, ReachPath
from tarmac.cli.rendering.text import paragraph, printable, table

BY_RULES = "This follows from the rules alone: no packet was sent."
BY_PROBES = "This follows from the rules and the nodes' last tunnel probes: no packet was sent."
_HEADERS = ("RULE", "ANSWER", "REASON", "MESSAGE")


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
        parts += ["", _title(path), table(_HEADERS, rows)]
    if found.change:
        # Unwrapped, in one line: it is to be copied.
        parts += ["", f"Smallest change: {printable(found.change)}"]
    return parts


def _title(path: ReachPath) -> str:
    ends = f"{path.source or '?'} → {path.target or '?'}"
    where = f" on {path.network}" if path.network else ""
    seen = f", seen as {path.seen_as}" if path.seen_as else ""
    return printable(f"{ends}{where}{seen}: {path.answer}")
