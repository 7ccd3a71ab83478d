"""The page's example of a scenario can be played."""

from __future__ import annotations

import re
from pathlib import Path

from tarmac.apps.main import main
from tests.docs.tour import HOW_TO
from tools.cache import ROOT


def test_it_comes_out_as_it_should(tmp_path: Path) -> None:
    found = re.search(r"```yaml\n(name: .*?)```", (HOW_TO / "simulate.md").read_text(), re.DOTALL)
    assert found
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(found[1].replace("../", f"{ROOT}/examples/"))
    assert main(["sim", str(scenario)]) == 0
