"""A page as a transcript: its console blocks, executed in a newcomer's terminal and compared like any other session.

`python -m tests.docs.tour [PAGE…]` writes new outputs; read the difference before you commit it.
"""

from __future__ import annotations

import re
import sys
import tempfile
import textwrap
from pathlib import Path

from tests.docs.newcomer import Terminal, first_steps
from tests.transcripts.replaying import mask, parse_text, play, render
from tools.cache import ROOT

README = ROOT / "README.md"
TUTORIALS = ROOT / "docs" / "tutorial"
TUTORIAL = TUTORIALS / "first-steps.md"
WAY_IN = TUTORIALS / "way-in.md"
HOW_TO = ROOT / "docs" / "how-to"
# Pages by the page with their start: the README's planet is real, the tutorial's simulated, that of the way in has an
# outside.
PLAYED = {
    README: (
        README,
        HOW_TO / "use-disks-and-configuration.md",
        HOW_TO / "expose-a-service.md",
        HOW_TO / "use-several-networks.md",
    ),
    TUTORIAL: (
        TUTORIAL,
        TUTORIALS / "deploy-your-app.md",
        TUTORIALS / "run-a-virtual-machine.md",
        HOW_TO / "autoscale.md",
    ),
    WAY_IN: (WAY_IN,),
}
_MASKS = (
    (r"\b(10\.\d+\.\d+\.\d+|fd20:[0-9a-f:]+|fe80::[0-9a-f:]+)", "<address>"),  # free addresses
    (r"\b(dfw|lhr|sea)-\d\b(?!-)", "<node>"),  # of equal nodes, any
    (r"(?<= )(dfw|lhr|sea)(?= +Bound)", "<node>"),  # of equal owners, any
    (r"\b\d{5}m\b", "<cpu>"),  # the machine's size
    (r"\b6\.1\.0-\d+-cloud-amd64\b", "<kernel>"),  # the current one of Debian
    (r"(?<=\S) {2,}", "  "),  # columns are as wide as their content
)
_BLOCK = re.compile(
    r"^(?P<indent> *)```console\n(?P<text>(?P=indent)\$ .*?)(?=^(?P=indent)```)", re.DOTALL | re.MULTILINE
)


def replayed(page: Path, terminal: Terminal) -> str:
    """Return the page with the outputs of this run."""

    def seen(block: re.Match[str]) -> str:
        transcript = parse_text(page, textwrap.dedent(block["text"]))
        return f"{block['indent']}```console\n" + textwrap.indent(
            render(play(transcript, terminal.run)), block["indent"]
        )

    return _BLOCK.sub(seen, page.read_text())


def comparable(text: str) -> str:
    """Return the text without values that differ from run to run and from machine to machine."""
    masked = mask(text)
    for pattern, name in _MASKS:
        masked = re.sub(pattern, name, masked)
    return masked


def record(names: list[str]) -> None:
    """Write pages anew; all of them without names."""
    for beginning, played in PLAYED.items():
        chosen = [page for page in played if not names or page.stem in names]
        if not chosen:
            continue
        with tempfile.TemporaryDirectory() as folder, first_steps(beginning, Path(folder)) as terminal:
            for page in chosen:
                page.write_text(replayed(page, terminal))


if __name__ == "__main__":
    record(sys.argv[1:])
    sys.exit(0)
