"""The reference page of Workload has every field of the server's schema, and nothing else."""

from __future__ import annotations

from tools.schemas import workload_schema
from tools.workload_page import PAGE, WorkloadPage


def test_the_page_is_made_of_the_schema() -> None:
    assert PAGE.read_text() == WorkloadPage(workload_schema()).text(), "python -m tools.workload_page writes it anew"


def test_each_object_has_one_section_that_the_others_refer_to() -> None:
    field = {"type": "object", "properties": {"a": {"type": "string", "description": "An a."}}, "required": ["a"]}
    header = {name: {"type": "string"} for name in ("apiVersion", "kind", "metadata")}
    schema = {"properties": {**header, "one": field, "many": {"type": "array", "items": field}}}
    text = WorkloadPage({**schema, "properties": {**header, "spec": {"type": "object", **schema}}}).text()
    assert text.count("| `a` | string | **required** An a. |") == 1
    assert "| `one` | [object](#specone) |  |" in text
    assert "| `many` | [object[]](#specone) |  |" in text
