"""A `tarmac` that is killed (SIGKILL) at one step of one rotation: KIND STEP before|after, then arguments of `tarmac`.

A step is a write of the record of keys; STEP is the record's number after it. `before` kills before the write, `after`
kills when the write is durable, before it has an effect or a response.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from tarmac.apps.main import main
from tarmac.server.security.keys.keyrecords import KeyRecord, StoredRecord


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives that")


def _die_at(kind: str, step: int, moment: str) -> None:
    write = StoredRecord.change

    async def change(self: StoredRecord, change: Callable[[KeyRecord], KeyRecord]) -> bool:
        def wanted(record: KeyRecord) -> KeyRecord:
            found = change(record)
            if (moment, record.metadata["name"], record.step + 1) == ("before", kind, step) and found != record:
                _die()
            return found

        done = await write(self, wanted)
        if done and (moment, self.now.metadata["name"], self.now.step) == ("after", kind, step):
            _die()
        return done

    StoredRecord.change = change


if __name__ == "__main__":
    _die_at(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    del sys.argv[1:4]
    sys.exit(main())
