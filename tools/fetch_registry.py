"""Gets Debian's docker-registry alone, for `tarmac up --registry` and the tests: prints its path. Needs no root."""

from __future__ import annotations

import sys

from tools.node_parts import ensure_registry


def main() -> int:
    """Print the path; return the exit code."""
    try:
        print(ensure_registry())
    except RuntimeError as failure:
        print(f"NO docker-registry, so no `tarmac up --registry`, and its tests will fail: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
