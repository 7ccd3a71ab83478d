"""Finds a kubectl for the tests: one on the PATH from 1.30 on, else one built from source. Prints its path."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

from tools.gobuild import build

AT_LEAST = (1, 30)


def find_kubectl() -> str:
    """The path of a kubectl that is new enough."""
    found = shutil.which("kubectl")
    return found if found and _version(found) >= AT_LEAST else str(build("kubectl"))


def _version(kubectl: str) -> tuple[int, int]:
    answer = subprocess.run([kubectl, "version", "--client", "-o", "json"], capture_output=True, text=True, check=False)
    try:
        version = json.loads(answer.stdout)["clientVersion"]
        return int(version["major"]), int(version["minor"].rstrip("+"))
    except (ValueError, KeyError):
        return 0, 0


if __name__ == "__main__":
    print(find_kubectl())
    sys.exit(0)
