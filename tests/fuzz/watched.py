"""The `tarmac` program with its loop watched: every stall of 50 ms of CPU becomes a line of the given file.

TARMAC_LOOP_REPORT=stalls.jsonl python -m tests.fuzz.watched server --data-dir ...
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvloop

from tarmac.apps.main import main
from tests.support.loopwatch import LoopWatch

REPORT = "TARMAC_LOOP_REPORT"


def report_to(path: Path) -> Callable[[float, str], None]:
    """Write stalls to a file, a line each."""

    def write(held: float, stack: str) -> None:
        with path.open("a") as file:
            file.write(json.dumps({"ms": round(held * 1000), "stack": stack}) + "\n")

    return write


def _watching(run: Callable[..., Any]) -> Callable[..., Any]:
    def watched(work: Coroutine[Any, Any, Any], **options: Any) -> Any:
        async def both() -> Any:
            watch = LoopWatch(report_to(Path(os.environ[REPORT])))
            try:
                return await work
            finally:
                watch.stop()

        return run(both(), **options)

    return watched


if __name__ == "__main__":
    uvloop.run = _watching(uvloop.run)
    sys.exit(main())
