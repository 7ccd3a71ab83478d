"""The documentation as a static site: `python -m tools.site` builds it into `build/site`, and fails on any warning.

The pages stay as they are for readers of the repository. The site is built from copies, in which links to files outside
`docs` lead to copies of these files, and the navigation is that of docs/README.md.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tools.cache import ROOT, cache_root, cached, digest, say

DOCS = ROOT / "docs"
SOURCE = ROOT / "build" / "site-source"
SITE = ROOT / "build" / "site"
_CONFIG = ROOT / "mkdocs.yml"
_LOCK = ROOT / "requirements-docs.lock"
_NAMES = {"README.md": "index.md", "docs/README.md": "contents.md"}
"""The landing page and the table of contents. Other pages keep their path below docs, or their name in lower case."""
_CODE = re.compile(r"^ *```[^\n]*\n.*?^ *```|(?P<ticks>`+)[^\n]+?(?P=ticks)", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^( *```\w+) \w+$", re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:|#)(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]+)?\)")
_FOLDER = re.compile(r"\[(?P<text>[^\]]*)\]\((?!https?:|#)(?P<target>[^)\s#]+)\)")
_ITEM = re.compile(r"(?:\d+\.|[-*]) +(?=\S)")
_ENTRY = re.compile(r"\[([^\]]+)\]\(([^)#]+\.md)\)")


def pages() -> list[Path]:
    """Return the pages of the site."""
    return sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])


def place(path: Path) -> Path:
    """Return the path of a page or file in the site's source."""
    name = str(path.relative_to(ROOT))
    if name in _NAMES:
        return Path(_NAMES[name])
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS)
    return Path(name.lower()) if path.suffix == ".md" and path.parent == ROOT else Path("files") / name


def staged(page: Path, files: set[Path]) -> str:
    """Return the text of a page as the site has it, and add the files that it links to."""

    def linked(match: re.Match[str]) -> str:
        target = (page.parent / match["target"]).resolve()
        if target.suffix != ".md":
            files.add(target)
        return f"]({os.path.relpath(place(target), place(page).parent)}{match['anchor'] or ''})"

    def unlinked(match: re.Match[str]) -> str:
        return match["text"] if (page.parent / match["target"]).is_dir() else match.group()

    # A folder is no page of the site.
    text, parts, end = _FOLDER.sub(unlinked, _FENCE.sub(r"\1", page.read_text())), list[str](), 0
    for code in _CODE.finditer(text):
        parts += [_LINK.sub(linked, text[end : code.start()]), code.group()]
        end = code.end()
    return indented("".join([*parts, _LINK.sub(linked, text[end:])]))


def indented(text: str) -> str:
    """Write lists as mkdocs wants them: four spaces for each level, and an empty line before one that follows text."""
    lines: list[str] = []
    items: list[int] = []  # where the text of each open item begins in the page
    in_fence = after_item = False
    for line in text.split("\n"):
        bare = line.lstrip(" ")
        indent = len(line) - len(bare)
        item = None if in_fence else _ITEM.match(bare)
        if bare and not in_fence:
            while items and indent < items[-1]:
                items.pop()
        if item and lines and lines[-1] and not after_item:
            lines.append("")
        rest = max(0, indent - (items[-1] if items else 0))
        lines.append(" " * (4 * len(items) + rest) + bare if bare else "")
        if item:
            items.append(indent + item.end())
        after_item = item is not None
        in_fence ^= bare.startswith("```")
    return "\n".join(lines)


def stage(folder: Path) -> None:
    """Write the site's source into a folder, which is replaced."""
    shutil.rmtree(folder, ignore_errors=True)
    files = {path for path in DOCS.rglob("*") if path.suffix == ".png"}
    for page in pages():
        target = folder / place(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(staged(page, files))
    for file in files:
        target = folder / place(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def navigation() -> list[dict[str, Any]]:
    """Return the navigation: sections, groups and pages of docs/README.md, and the pages beside it."""
    sections = list(_sections((DOCS / "README.md").read_text()))
    return [
        {"Home": ["index.md", {"Contents": "contents.md"}, *(str(place(each)) for each in _beside())]},
        *sections,
    ]


def build(folder: Path = SITE, source: Path = SOURCE) -> None:
    """Build the site, if `source` is the default one from fresh copies. Raises RuntimeError, also on a warning."""
    libraries = tools()
    if source == SOURCE:
        stage(SOURCE)
    config = source.parent / "mkdocs.yml"
    added = {"INHERIT": str(_CONFIG), "nav": navigation(), "docs_dir": str(source), "site_dir": str(folder)}
    config.write_text(yaml.safe_dump(added, sort_keys=False))
    # Not --quiet: mkdocs counts the warnings that it shows.
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config)],
        env={**os.environ, "PYTHONPATH": str(libraries), "NO_MKDOCS_2_WARNING": "1"},
        cwd=ROOT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0 or "WARNING" in done.stderr:
        raise RuntimeError(f"the site has warnings:\n{done.stdout}{done.stderr}")


def tools() -> Path:
    """Return the folder with mkdocs and its theme, fetched once."""
    return cached("site-tools", "1", _key(), _install)


def built_tools() -> bool:
    """Return True if they have been fetched."""
    return (cache_root() / f"site-tools-1-{_key()}").is_dir()


def _key() -> str:
    return digest([_LOCK.read_bytes(), sys.version.encode()])


def _install(folder: Path) -> None:
    say("fetching mkdocs and its theme, once")
    command = [sys.executable, "-m", "uv", "pip", "install", "-q", "--require-hashes", "-r", str(_LOCK)]
    subprocess.run([*command, "--target", str(folder)], check=True)


def _beside() -> list[Path]:
    return sorted(path for path in ROOT.glob("*.md") if path.name != "README.md")


def _sections(text: str) -> Iterator[dict[str, Any]]:
    """Yield the sections: a heading, its bold lines as groups, and the links in them."""
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        groups = re.split(r"^\*\*(.+)\*\*$", body, flags=re.MULTILINE)
        entries: list[Any] = _entries(groups[0])
        entries += [{name: _entries(part)} for name, part in zip(groups[1::2], groups[2::2], strict=True)]
        if entries:
            yield {title: entries}


def _entries(text: str) -> list[dict[str, str]]:
    inside = [(name, (DOCS / target).resolve()) for name, target in _ENTRY.findall(text)]
    return [{_capital(name): str(place(path))} for name, path in inside if path.is_relative_to(DOCS)]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def main() -> int:
    """Build the site and print its first page; with `--tools`, fetch what that needs."""
    if sys.argv[1:] == ["--tools"]:
        print(tools())
        return 0
    try:
        build()
    except RuntimeError as failure:
        print(failure, file=sys.stderr)
        return 1
    print(SITE / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
