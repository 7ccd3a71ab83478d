"""Collects unhandled exceptions from the log: an exception that no injected fault explains is a bug."""

from __future__ import annotations

import io
import json

from tarmac.base.log import configure

# Exceptions caused by faults; controllers retry after them.
_EXPLAINED = ("Disconnected(", "RequestTimeout(", "NotLeader(", "GarbledReply(")
_FAILED = ("reconcile failed", "handler failed", "request failed")


class LogTap(io.TextIOBase):
    """A stream for log lines that keeps only the bugs."""

    def __init__(self) -> None:
        super().__init__()
        self.bugs: list[str] = []

    def listen(self) -> None:
        """Redirect the log of this process to this stream."""
        configure(level="error", as_json=True, stream=self)  # pyright: ignore[reportArgumentType]

    def write(self, text: str, /) -> int:
        """Take one line, or a part of one."""
        if any(failed in text for failed in _FAILED):
            line = json.loads(text)
            error = str(line.get("error") or line.get("traceback"))
            if not error.startswith(_EXPLAINED):
                where = line.get("controller") or line.get("path") or ""
                bug = f"{where} {line.get('key', '')}: {error} {line.get('where', '')}"
                if bug not in self.bugs:
                    self.bugs.append(bug)
        return len(text)
