"""Rows of the trial, their limits, and the table. Every row writes the file again: a trial may end at any time."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Rows:
    """The rows so far. A row without a limit only informs."""

    rows: list[tuple[str, str, str, str]] = field(default_factory=list[tuple[str, str, str, str]])
    file: Path | None = None

    def add(self, what: str, found: str) -> None:
        """Add a figure."""
        self._add(what, found, "", "")

    def judge(self, what: str, found: str, bar: str, *, good: bool) -> None:
        """Add a figure with its limit."""
        self._add(what, found, bar, "ok" if good else "MISSED")

    def show(self, what: str, *, true: bool, found: str = "") -> None:
        """Add a statement that must be true."""
        self._add(what, found or ("yes" if true else "no"), "", "ok" if true else "FAILED")

    @property
    def good(self) -> bool:
        """Return True if no step failed and every limit is met."""
        return all(verdict in ("", "ok") for *_, verdict in self.rows)

    def table(self) -> str:
        """Return all rows as Markdown."""
        lines = ["| step | found | bar | verdict |", "|---|---|---|---|"]
        return "\n".join((*lines, *(f"| {' | '.join(each)} |" for each in self.rows))) + "\n"

    def _add(self, *row: str) -> None:
        clean = tuple(" ".join(each.replace("|", "/").split()) for each in row)
        self.rows.append((clean[0], clean[1], clean[2], clean[3]))
        print(f"gpu-trial: {clean[0]}: {clean[1]}{' (' + clean[2] + ')' if clean[2] else ''} {clean[3]}", flush=True)
        if self.file is not None:
            self.file.write_text(self.table())
