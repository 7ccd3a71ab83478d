"""Runs specs, each in a process of its own, so that one that hangs or crashes takes no other with it."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.specs import focus, serial

TIMEOUT = 900  # seconds for one spec; the slowest waits five minutes for a CronJob
_GRACE = 60  # seconds in which a spec that timed out cleans up
_RAN = re.compile(r"^Ran (\d+) of \d+ Specs", re.MULTILINE)
# this spec ends early without a failure where custom resource definitions are not served
_GAVE_UP = "Unexpected error while creating CustomResourceDefinition"
_FAILURE = re.compile(
    r"^  \[(?:FAILED|PANICKED|TIMEDOUT|INTERRUPTED)\] (?!in \[)(.*(?:\n(?!  In \[|------|\n).*){0,8})", re.MULTILINE
)
_NO_SPEC = "no spec of this name ran"


@dataclass(frozen=True)
class Outcome:
    """The result of one spec. `failure` is empty if it passed."""

    spec: str
    failure: str
    seconds: float


@dataclass(frozen=True)
class Suite:
    """The program, its server, and the folder of its logs."""

    program: Path
    kubectl: str
    kubeconfig: Path
    logs: Path

    def run(self, specs: Iterable[str], workers: int, told: Callable[[Outcome], None]) -> list[Outcome]:
        """Run the specs, `workers` at a time; the serial ones alone, at the end."""
        self.logs.mkdir(parents=True, exist_ok=True)
        chosen = list(specs)
        outcomes = list[Outcome]()
        for together, number in ((False, workers), (True, 1)):
            with ThreadPoolExecutor(number) as pool:
                for outcome in pool.map(self.one, [each for each in chosen if serial(each) is together]):
                    told(outcome)
                    outcomes.append(outcome)
        return outcomes

    def one(self, spec: str) -> Outcome:
        """Run one spec."""
        began = time.monotonic()
        command = [
            str(self.program), f"--kubeconfig={self.kubeconfig}", f"--kubectl-path={self.kubectl}",
            f"--ginkgo.focus={focus(spec)}", f"--ginkgo.timeout={TIMEOUT}s", "--ginkgo.no-color", "--ginkgo.v",
            "--provider=skeleton", "--dump-logs-on-failure=false", "--disable-log-dump", "--gomega-max-length=2000",
        ]  # fmt: skip
        log = self.logs / f"{re.sub(r'[^A-Za-z0-9]+', '-', spec).strip('-')[:180]}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file, env={**os.environ, "GOMAXPROCS": "2"})
            try:
                code = process.wait(TIMEOUT + _GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
        return Outcome(spec, failure_in(log.read_text(errors="replace"), code), time.monotonic() - began)


def failure_in(log: str, code: int) -> str:
    """Return the reason of a failure from the spec's log; empty if it ran and passed."""
    ran = _RAN.search(log)
    if code == 0 and _GAVE_UP in log:
        return _GAVE_UP
    if code == 0 and ran is not None and ran[1] == "1":
        return ""
    if code == 0:
        return _NO_SPEC
    found = _FAILURE.search(log)
    return " ".join(found[1].split()) if found is not None else f"exit code {code}"
