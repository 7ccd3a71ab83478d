"""An explanation as text: the sentence, the verdicts by city and node, the smallest change."""

from __future__ import annotations

from tarmac.api.compute.explanations import Explanation
from tarmac.cli.rendering.text import paragraph, table

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
