"""`python -m tarmac.agent.devices.nvidia.nvmlprogram LIBRARY… -- UUID…`: prints a sample of these GPUs, and ends.

NVIDIA's library keeps 19 MB in every process that initializes it and returns nothing, so the plugin, which runs for
ever, never loads it. A crash of the library, or a call that hangs, ends with this program.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, Final

from tarmac.agent.devices.nvidia.nvml import Nvml, NvmlMissing

LIFETIME: Final = 30
"""Seconds. The plugin's own timeout is shorter."""


def main(arguments: Sequence[str]) -> int:
    """Print the document; return the exit code."""
    # For a plugin that was killed meanwhile: no process of a driver that hangs piles up. The kernel's default action,
    # since a Python handler does not run inside a call of the library; an ignored signal would be inherited.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(LIFETIME)
    answers = _own_output()
    at = list(arguments).index("--")
    document = _document(arguments[:at], arguments[at + 1 :])
    os.write(answers, json.dumps(document).encode())
    return 0


def _own_output() -> int:
    """Return a descriptor for the document alone: the library prints warnings to standard output.

    Programs that the library starts do not inherit it, or the plugin would wait for the end of nvidia-modprobe.
    """
    answers = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    return answers


def _document(libraries: Sequence[str], uuids: Sequence[str]) -> dict[str, Any]:
    why = ""
    for library in libraries:
        try:
            nvml = Nvml(library)
        except NvmlMissing as error:
            why = str(error)
            continue
        return {"gpus": {uuid: nvml.sample(uuid) for uuid in uuids}}
    return {"error": why or "no library was named"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
