"""New keys for two machines with running instances: no instance restarts, and no user loses the login.

The authority behind certificates, the key of tokens and the key of Secrets are rotated at once, on real nodes. Agents
wait seconds in place of minutes here; in a soak they wait minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.rotations import TRUSTS, certified_by
from tests.machines.boxes import Box, Started, boxes, until
from tests.machines.planet import KUBECONFIG, instance, location
from tests.soak import SOAK
from tests.support import logged_in

pytestmark = [pytest.mark.root, pytest.mark.soak(minutes=8), pytest.mark.timeout(1200 if SOAK else 240)]
HASTY = Path(__file__).parents[1] / "support" / "hasty"
PATIENCE = 900.0 if SOAK else 60.0
LAST = {"ca": "signing", "tokens": "signing", "encryption": "sealed"}
"""The stage of each kind that waits for `--retire`."""


class TwoMachines:
    """A server with a node, another node, and an instance on each that counts."""

    def __init__(self, alpha: Box, beta: Box) -> None:
        self.alpha, self.beta = alpha, beta
        init = ("init", "--location", "dfw", "--foreground", "--listen", "198.18.0.1:6443")
        alpha.start(*init).until_said("join another machine")
        self._create(location("lhr"))
        token = alpha.run("token", "create", "--location", "lhr", *KUBECONFIG).stdout.strip()
        beta.start("join", "198.18.0.1", "--token", token, "--foreground").until_said("joined as beta")
        counting = "n=0; while :; do n=$((n+1)); echo $n; sleep 0.2; done"
        self._create(instance("counting", ["DFW", "LHR"], image="busybox", command=counting))
        until(lambda: len(self.containers()) == 2, 60)

    def _create(self, made: dict[str, Any]) -> None:
        said = self.alpha.kubectl("create", "-f", "-", stdin=json.dumps(made))
        assert "created" in said, said

    def get(self, *words: str) -> Any:
        return json.loads(self.alpha.kubectl("get", *words, "-o", "json"))

    def containers(self) -> dict[str, tuple[str, str, int]]:
        """Return the container of each pod, its start, and its restarts."""
        found: dict[str, tuple[str, str, int]] = {}
        for pod in self.get("pods")["items"]:
            for each in pod.get("status", {}).get("containerStatuses", ()):
                if since := each["state"].get("running", {}).get("startedAt"):
                    found[pod["metadata"]["name"]] = (each["containerID"], since, each["restartCount"])
        return found

    def agents(self) -> list[list[int]]:
        """Return the processes of the agents, which must not restart either."""
        return [_agents(box) for box in (self.alpha, self.beta)]

    def streams_work(self) -> None:
        """Check the path through the server to each node and back, over new connections."""
        for pod in self.containers():
            assert self.alpha.kubectl("exec", pod, "--", "hostname") == f"{pod}\n"
            assert self.alpha.kubectl("logs", pod, "--tail=1").strip().isdigit()

    def stage(self, what: str) -> dict[str, Any]:
        return json.loads(self.alpha.kubectl("get", "--raw", f"/tarmac/v1/rotations/{what}"))

    def rotate(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.alpha.run("rotate", *words, *KUBECONFIG)

    def renewed(self) -> bool:
        """Return true if every node has a certificate of the authority that signs now."""
        word = certified_by(self.stage("ca")["signing"])
        return all(word in each["metadata"]["annotations"][TRUSTS].split() for each in self.get("nodes")["items"])


def _agents(box: Box) -> list[int]:
    found: list[int] = []
    for process in box.path("/proc").glob("[0-9]*"):
        words = (process / "cmdline").read_bytes().split(b"\0")
        if b"agent" in words and b"tarmac.apps.main" in words:
            found.append(int(process.name))
    return sorted(found)


class Standing:
    """A client on a machine that writes and watches with a kubeconfig."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def told(self) -> dict[str, Any]:
        lines = self._log.read_text().splitlines()[:-1]  # the last one may be incomplete
        return json.loads(lines[-1]) if lines else {"done": 0, "seen": 0, "refusals": []}

    def goes_on(self) -> None:
        """Wait for more writes and events, without an error."""
        before = self.told()
        until(lambda: all(self.told()[each] > before[each] + 5 for each in ("done", "seen")))
        assert self.told()["refusals"] == []


@contextmanager
def standing(box: Box, kubeconfig: str, log: Path) -> Generator[Standing]:
    command = box.command(sys.executable, logged_in.__file__, kubeconfig, log.stem)
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, text=True, env=box.environment())
    try:
        yield Standing(log)
    finally:
        Started(process, log).kill()


def test_instances_run_on_and_nobody_is_logged_out_while_every_key_is_rotated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not SOAK:
        monkeypatch.setenv("PYTHONPATH", str(HASTY))
    with boxes(tmp_path, "alpha", "beta") as (alpha, beta):
        machines = TwoMachines(alpha, beta)
        alpha.kubectl("create", "secret", "generic", "word", "--from-literal=word=hunter2")
        data = alpha.path("/var/lib/tarmac")
        (data / "before.kubeconfig").write_bytes((data / "kubeconfig").read_bytes())
        containers, agents = machines.containers(), machines.agents()
        assert [len(each) for each in agents] == [1, 1]
        machines.streams_work()
        with standing(alpha, "/var/lib/tarmac/before.kubeconfig", tmp_path / "before") as before:
            before.goes_on()
            for what in LAST:
                begun = machines.rotate(what)
                assert begun.returncode == 0, begun.stderr
            machines.streams_work()
            for what, last in LAST.items():
                until(lambda what=what, last=last: machines.stage(what)["stage"] == last, PATIENCE)
            machines.streams_work()  # the new authority signs, and nodes have certificates of the old one
            until(machines.renewed, PATIENCE)
            machines.streams_work()
            before.goes_on()
            refused = machines.rotate("ca", "--retire")
            assert refused.returncode == 3
            assert "in the last 7 days: kubernetes-admin" in refused.stderr
            assert "nodes" not in refused.stderr, "only old kubeconfigs are in the way"
        (data / "after.kubeconfig").write_bytes((data / "kubeconfig").read_bytes())
        with standing(alpha, "/var/lib/tarmac/after.kubeconfig", tmp_path / "after") as after:
            after.goes_on()
            for words in (("ca", "--retire", "--force"), ("tokens", "--retire", "--force"), ("encryption", "--retire")):
                assert machines.rotate(*words).stdout.startswith("settled: ")
            after.goes_on()
            refusal = alpha.run("status", "--kubeconfig", "/var/lib/tarmac/before.kubeconfig")
            assert "certificate" in refusal.stderr, "the old kubeconfig has expired"
            machines.streams_work()
            after.goes_on()
        word = alpha.kubectl("get", "secret", "word", "-o", "jsonpath={.data.word}")
        assert word == "aHVudGVyMg=="
        assert (machines.containers(), machines.agents()) == (containers, agents)
