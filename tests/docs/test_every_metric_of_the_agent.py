"""The pages of the agent's metrics and events list all that the agent has."""

from __future__ import annotations

import re

from tarmac.agent.http.resourcemetrics import _FAMILIES
from tools.cache import ROOT

REFERENCE = ROOT / "docs" / "reference"
PARTS = ("agent", "apps/node", "runtimes", "volumes")
_SAMPLE = re.compile(r'yield\s*\(?\s*"([a-z_]+)",\s*"(gauge|counter|histogram)"')
_ROW = re.compile(r"^\| ((?:`[a-z_]+`(?:, )?)+) \| (\w+) \|", re.MULTILINE)
_EVENT = re.compile(r'"(?:Normal|Warning)",\s*f?"([A-Z][A-Za-z]+)"')


def sources() -> str:
    folders = [ROOT / "src" / "tarmac" / part for part in PARTS]
    return "\n".join(file.read_text() for folder in folders for file in sorted(folder.rglob("*.py")))


def test_every_metric_is_on_the_page() -> None:
    page = (REFERENCE / "agent-metrics.md").read_text()
    rows = {name: kind for names, kind in _ROW.findall(page) for name in re.findall(r"`([a-z_]+)`", names)}
    emitted = dict(_SAMPLE.findall(sources()))
    assert len(emitted) > 10
    assert {name: rows.get(name) for name in emitted} == emitted
    assert [name for name in _FAMILIES if f"`{name}`" not in page] == []


def test_every_event_is_on_the_page() -> None:
    page = (REFERENCE / "agent-events.md").read_text()
    found = set(_EVENT.findall(sources()))
    assert len(found) > 10
    assert [reason for reason in sorted(found) if f"`{reason}`" not in page] == []
