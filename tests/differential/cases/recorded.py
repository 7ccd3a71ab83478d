"""The recorded vectors of Kubernetes' own kinds, played on both servers."""

from __future__ import annotations

from tests.differential.steps import Case, Json, Step
from tests.server.test_recorded_answers import VECTORS


def _step(step: Json) -> Step:
    method, path = step["do"].replace("$NS", "$ns").replace("$N", "n").split(" ", 1)
    made = Step(method, path, step.get("body"))
    if "type" in step:
        made = made.sending(step["type"])
    return made.accepting(step["accept"]) if "accept" in step else made


CASES = [
    Case("recorded", vector["name"].removeprefix("kinds/"), tuple(_step(step) for step in vector["steps"]))
    for vector in VECTORS
]
