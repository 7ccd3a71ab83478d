"""Writes the table of Kubernetes' own kinds into docs/reference/kubernetes-kinds.md, from the catalogue."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

from tarmac.api.kubernetes.resources import resources
from tarmac.api.resource import Resource
from tools.cache import ROOT

PAGE = ROOT / "docs" / "reference" / "kubernetes-kinds.md"
_TABLE = re.compile(r"^\| group \| kinds \|\n(?:\|.*\n)+", re.MULTILINE)
# groups of which no object is stored of its own
_VIEWS = {
    ("autoscaling", "v1"): " (the same objects as those of `autoscaling/v2`)",
    ("events.k8s.io", "v1"): " (the same objects as core Events)",
}


def table(served: Iterable[Resource]) -> str:
    """The table: one row for each group and version, with its stored kinds."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for each in served:
        if each.stored:
            kinds.setdefault((each.group, each.version), []).append(each.kind)
    rows = (
        f"| {group or 'core'}/{version} | {', '.join(sorted(found))}{_VIEWS.get((group, version), '')} |\n"
        for (group, version), found in sorted(kinds.items(), key=lambda item: (item[0][0], -int(item[0][1][1:])))
    )
    return "| group | kinds |\n|---|---|\n" + "".join(rows)


def with_table(page: str) -> str:
    """The text of the page with the table of this catalogue."""
    return _TABLE.sub(lambda _: table(resources()), page, count=1)


def main() -> int:
    """Update the page."""
    PAGE.write_text(with_table(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
