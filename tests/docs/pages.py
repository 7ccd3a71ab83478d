"""The pages of the documentation, and the code in them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tools.cache import ROOT

_CODE = re.compile(
    r"^ *```[^\n]*\n(?P<block>.*?)^ *```|(?P<ticks>`+)(?P<span>[^\n]+?)(?P=ticks)", re.DOTALL | re.MULTILINE
)


def pages() -> list[Path]:
    """Every Markdown file that git knows, or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / name for name in sorted(set(listed)) if (ROOT / name).is_file()]


def code(text: str) -> list[str]:
    """Return the code in a text: lines of blocks, those with a backslash joined, and spans."""
    found: list[str] = []
    for match in _CODE.finditer(text):
        found += (match["span"] or match["block"].replace("\\\n", " ")).splitlines()
    return [line.strip() for line in found]


def blocks(text: str) -> list[str]:
    """Return blocks of code without a language: commands to type."""
    found = re.findall(r"^```([^\n]*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [block for language, block in found if not language]


def prose(text: str) -> str:
    """Return the text outside code."""
    return _CODE.sub("", text)
