"""The table of served kinds in the documentation is that of the catalogue."""

from __future__ import annotations

from tools.cache import ROOT
from tools.kinds_table import PAGE, with_table


def test_the_page_lists_every_stored_kind() -> None:
    page = PAGE.read_text()
    assert with_table(page) == page, "update it: .venv/bin/python -m tools.kinds_table"
    assert "| resource.k8s.io/v1 | DeviceClass, ResourceClaim," in page


def test_the_readme_links_the_page() -> None:
    assert "docs/reference/kubernetes-kinds.md" in (ROOT / "README.md").read_text()
