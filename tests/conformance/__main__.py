"""`python -m tests.conformance`: runs the conformance specs against `tarmac up` and compares with the documentation.

Exits with 0 if every spec passes that docs/reference/conformance.md does not name.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.conformance.running import Outcome, Suite
from tests.conformance.specs import documented_failures, listed
from tests.support.tarmac_process import TarmacProcess
from tools.fetch_kubernetes_controllers import main as fetch_controllers
from tools.gobuild import build

_FLAGS = ("--runtime=sim", "--cities=DFW,SEA,LHR", "--sim-nodes=2", "--with-kubernetes-controllers")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="tests.conformance", description="Run Kubernetes' conformance specs.")
    parser.add_argument("--only", default="", metavar="REGEX", help="run the specs that match")
    parser.add_argument("--workers", type=int, default=4, help="specs at a time")
    parser.add_argument("--out", type=Path, default=Path("build/conformance"), help="folder of logs and results.json")
    asked = parser.parse_args()
    specs = [spec for spec in listed() if re.search(asked.only, spec)]
    fetch_controllers()
    programs = build("e2e.test"), str(build("kubectl"))
    with (
        tempfile.TemporaryDirectory(prefix="tarmac-conformance-") as folder,
        TarmacProcess(Path(folder) / "data", *_FLAGS, command="up") as planet,
    ):
        suite = Suite(*programs, planet.kubeconfig, asked.out.absolute())
        outcomes = suite.run(specs, asked.workers, _tell)
        planet.stop(timeout=60)
    (asked.out / "results.json").write_text(json.dumps([asdict(each) for each in outcomes], indent=1))
    return _conclude(outcomes)


def _tell(outcome: Outcome) -> None:
    verdict = f"FAILED {outcome.failure[:300]}" if outcome.failure else "passed"
    print(f"{outcome.seconds:6.0f} s  {outcome.spec}: {verdict}", flush=True)


def _conclude(outcomes: list[Outcome]) -> int:
    failed = {each.spec for each in outcomes if each.failure}
    known = documented_failures().keys() & {each.spec for each in outcomes}
    print(f"{len(outcomes) - len(failed)} of {len(outcomes)} specs pass")
    for spec in sorted(failed - known):
        print(f"fails and is not documented: {spec}")
    for spec in sorted(known - failed):
        print(f"is documented as failing and passes: {spec}")
    return 1 if failed != known else 0


if __name__ == "__main__":
    sys.exit(main())
