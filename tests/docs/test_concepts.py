"""The picture of the concepts: every object and place that the page explains, readable on light and dark pages."""

from __future__ import annotations

from xml.etree import ElementTree

from tools.cache import ROOT

PICTURE = ROOT / "docs" / "pictures" / "concepts.svg"
PAGE = ROOT / "docs" / "explanation" / "concepts.md"
NAMESPACE = {"svg": "http://www.w3.org/2000/svg"}


def test_the_picture_shows_each_object_and_place_of_the_page() -> None:
    texts = [each.text or "" for each in ElementTree.parse(PICTURE).iterfind(".//svg:text", NAMESPACE)]
    page = PAGE.read_text()
    assert f"](../pictures/{PICTURE.name})" in page
    for word in ("Workload", "WorkloadDeployment", "Instance", "Pod", "City", "Location", "Node"):
        assert any(text.split()[0] == word or f", {word} " in text for text in texts), word
        assert f"**{word}**" in page or f"**{word.lower()}**" in page


def test_the_picture_has_colours_for_dark_pages_and_a_description() -> None:
    picture = ElementTree.parse(PICTURE)
    style = picture.findtext("svg:style", "", NAMESPACE)
    light, _, dark = style.partition("@media (prefers-color-scheme: dark)")
    names = ("page", "city", "object", "node", "hint", "arrow", "head")
    assert all(f".{name} {{" in part for name in names for part in (light, dark))
    assert picture.findtext("svg:desc", "", NAMESPACE)
    assert "http" not in PICTURE.read_text().replace(NAMESPACE["svg"], ""), "nothing from another host"
