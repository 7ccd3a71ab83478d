"""A GPU that two instances want, and kill -9 of plugin, agent and sandbox before, during and after its hand-over."""

from __future__ import annotations

import json
import time
from typing import Final

from tools.gputrial.machine import DATA, Machine
from tools.gputrial.story import workload
from tools.gputrial.table import Rows
from tools.gputrial.watch import HolderWatch

VICTIMS: Final = {
    "device plugin": ("tarmac.apps.deviceplugin",),
    "agent": ("tarmac.apps.main agent", str(DATA)),
    "sandbox": ("runsc-sandbox", "--nvproxy"),
}
"""The words by which each process is found."""
_CHECKPOINT: Final = DATA / "cities/dfw/agent/device_manager_state"
_TIMEOUT: Final = 90.0


class Faults:
    """Continues with the Workload `first`, which has the only GPU. `holder` has it; `waiting` wants it."""

    def __init__(self, machine: Machine, rows: Rows, resource: str) -> None:
        self.machine = machine
        self.rows = rows
        self.resource = resource
        self.holder = "first"
        self.waiting = ""
        self._offered = machine.allocatable().get(resource)

    def second_waits(self) -> None:
        """A second instance waits; `why` names the holder and the smallest change."""
        self._let_wait("second")
        machine, holder = self.machine, self.machine.instance(self.holder)
        machine.until(lambda: holder in machine.tarmac("why", "workload/second"), 30, "why names the holder")
        why = machine.tarmac("why", "workload/second")
        change = why.partition("Smallest change:")[2]
        self.rows.show("the second waits; why names the holder", true=not self._running("second"), found=why)
        self.rows.show(
            "why names the smallest change", true=f"delete {holder}" in " ".join(change.split()), found=change
        )

    def kills(self, when: str) -> None:
        """Kill -9 of each: the same pod keeps the GPU, and no other gets it."""
        for what, words in VICTIMS.items():
            pod = self.machine.instance(self.holder)
            killed = self.machine.kill(*words)
            answer = f"the GPU answers after kill -9 of the {what} {when}"
            passed = self.machine.until(lambda: self.machine.gpu_answers(pod) and self._all_offered(), _TIMEOUT, answer)  # noqa: B023
            self._judge(
                f"kill -9 of the {what} {when}", f"{killed} killed, GPU answers after {passed:.1f} s", killed > 0
            )

    def hand_overs(self) -> None:
        """The holder is deleted, the waiting one runs: undisturbed, then with a kill -9 of each meanwhile."""
        names = iter(("third", "fourth", "fifth", ""))
        for what, words in (("", ()), *VICTIMS.items()):
            old, new = self.holder, self.waiting
            began = time.monotonic()
            self.machine.kubectl("delete", "workload", old, "--wait=false")
            killed = self.machine.kill(*words) if words else 0
            answer = f"{new} has the GPU of {old}"
            self.machine.until(lambda: self.machine.gpu_answers(self.machine.instance(new)), _TIMEOUT, answer)  # noqa: B023
            passed = time.monotonic() - began
            self.machine.until(self._all_offered, _TIMEOUT, "the node offers as many GPUs as before")
            self.holder, self.waiting = new, ""
            if following := next(names):
                self._let_wait(following)
            step = f"{old} is deleted, {new} runs" + (f"; kill -9 of the {what} meanwhile" if what else "")
            self._judge(step, f"after {passed:.1f} s" + (f", {killed} killed" if what else ""), killed > 0 or not what)

    def _judge(self, step: str, found: str, good: bool) -> None:
        """Add a row: one pod has the GPU by the agent's checkpoint, and none beside it runs."""
        holders = self._holders()
        alone = len(holders) == 1 and not (self.waiting and self._running(self.waiting))
        self.rows.show(step, true=good and alone, found=f"{found}, held by {len(holders)} pod")

    def _let_wait(self, name: str) -> None:
        self.machine.apply(workload(name, self.resource))
        self.machine.until(lambda: self.machine.instance(name), 30, f"the instance of {name} exists")
        self.waiting = name

    def _running(self, name: str) -> bool:
        return self.machine.field("pod", self.machine.instance(name), "{.status.phase}") == "Running"

    def _all_offered(self) -> bool:
        return self.machine.allocatable().get(self.resource) == self._offered

    def _holders(self) -> list[str]:
        """Return the pods that have devices by the agent's checkpoint."""
        entries = json.loads(_CHECKPOINT.read_text())["Data"]["PodDeviceEntries"] or []
        return sorted({each["PodUID"] for each in entries})


def judge_holders(rows: Rows, watch: HolderWatch) -> None:
    """Add the row of the whole trial: no GPU was given twice."""
    found = (
        f"{watch.samples} samples of gVisor's containers, at most {watch.most} with one GPU {' '.join(watch.twice[:5])}"
    )
    rows.show("no GPU was given twice", true=watch.samples > 0 and not watch.twice, found=found)
