"""The documentation as a site: links of its source lead to what they led to, and the built pages have every target."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tools import site
from tools.cache import ROOT

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, where mkdocs has been fetched: `make docs` does, and `make test PEERS=1`."""
    if not site.built_tools():
        pytest.skip("NOT RUN: there is no mkdocs; python -m tools.site --tools fetches it")
    folder = tmp_path_factory.mktemp("site")
    site.build(folder)  # fails on any warning
    return folder


class Targets(HTMLParser):
    """The links of a page, and the ids to which other pages can link."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def broken(folder: Path) -> Iterator[str]:
    """Links of all pages that lead nowhere."""
    pages = {path: Targets(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    for page, found in pages.items():
        for link in found.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            anchor = unquote(parts.fragment)
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].ids):
                yield f"{page.relative_to(folder)}: {link}"


def test_every_link_of_every_page_leads_somewhere(built: Path) -> None:
    assert len(list(built.rglob("*.html"))) > len(site.pages())  # and one for a page that is not there
    # That one is served at any depth, so its links are absolute.
    assert [each for each in broken(built) if not each.startswith("404.html: ")] == []


def test_a_link_that_leads_nowhere_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<p id="here"></p><a href="b.html"></a><a href="#there"></a><a href="#here"></a>')
    assert list(broken(tmp_path)) == ["a.html: b.html", "a.html: #there"]


def test_a_page_with_a_broken_link_is_no_site(built: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    site.stage(source)
    page = source / "faq.md"
    for broken_link in ("[a](nope.md)", "[a](how-to/use-etcd.md#nope)"):
        text = page.read_text()
        page.write_text(f"{text}\n{broken_link}\n")
        with pytest.raises(RuntimeError, match="nope"):
            site.build(tmp_path / "site", source)
        page.write_text(text)


def test_blocks_of_an_item_belong_to_it(built: Path) -> None:
    shown = (built / "how-to" / "add-a-server.html").read_text()
    [steps] = re.findall(r"<ol>.*?</ol>", shown, re.DOTALL)
    assert steps.count("<li>") == 3, "one list, not interrupted by its blocks"
    for page in built.rglob("*.html"):
        text = re.sub(r"<[^>]+>", "", page.read_text())
        assert "```" not in text, page


def test_pages_load_nothing_from_another_host(built: Path) -> None:
    for page in built.rglob("*.html"):
        assert not re.findall(r'<(?:script|img|iframe)[^>]+src="https?:|<link[^>]+href="https?:', page.read_text()), (
            page
        )


def test_the_search_finds_headings_of_pages(built: Path) -> None:
    index = json.loads((built / "search" / "search_index.json").read_text())
    titles = {entry["location"]: entry["title"] for entry in index["docs"]}
    assert titles["how-to/use-etcd.html"] == "Use etcd"
    assert "reference/workload.html" in titles


def test_every_page_of_the_index_is_in_the_navigation() -> None:
    entries = set(re.findall(r"[\w./-]+\.md", json.dumps(site.navigation())))
    assert {str(site.place(page)) for page in site.pages()} - entries == {
        str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs" / "checklists").glob("*.md")
    }


def test_links_outside_the_documentation_lead_to_copies(tmp_path: Path) -> None:
    files: set[Path] = set()
    text = site.staged(ROOT / "docs" / "README.md", files)
    assert "](contributing.md)" in text
    page = ROOT / "docs" / "explanation" / "architecture.md"
    assert site.place(page) == Path("explanation/architecture.md")
    site.stage(tmp_path)
    readme = (tmp_path / "index.md").read_text()
    assert "](tutorial/three-sites.md)" in readme
    assert (tmp_path / "pictures" / "planet-light.png").is_file()


def test_items_of_lists_are_indented_by_four() -> None:
    source = (
        "1. one\n\n   ```\n   - code\n     more\n   ```\n\n2. two\n   - inner\n     text\n3. three\n\nend\n- last\n"
    )
    wanted = (
        "1. one\n\n    ```\n    - code\n      more\n    ```\n\n"
        "2. two\n    - inner\n        text\n\n3. three\n\nend\n\n- last\n"
    )
    assert site.indented(source) == wanted


def test_names_of_terminals_are_no_part_of_a_language(tmp_path: Path) -> None:
    text = site.staged(ROOT / "docs" / "tutorial" / "three-sites.md", set())
    assert "```console\n" in text
    assert "```console dallas" not in text
