"""Finds Helm charts that are published as Go modules: `python -m tools.charts NAME` prints the folder.

`third_party/charts` pins them, as it does programs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tools.cache import ROOT
from tools.gobuild import find_go

# name -> the module, and the folder of the chart in it
CHARTS = {"traefik": ("github.com/traefik/traefik-helm-chart", "traefik")}


def chart(name: str) -> Path:
    """Return the folder of a chart, downloaded and checked if need be."""
    module, folder = CHARTS[name]
    done = subprocess.run(
        [find_go(), "mod", "download", "-json", module],
        cwd=ROOT / "third_party" / "charts",
        env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"},
        stdout=subprocess.PIPE,
        check=True,
    )
    return Path(json.loads(done.stdout)["Dir"]) / folder


if __name__ == "__main__":
    print(chart(sys.argv[1]))
