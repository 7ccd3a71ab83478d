"""The life of Deployments, StatefulSets, DaemonSets, Jobs, CronJobs and autoscalers, through kills, on any nodes.

A template tells real nodes by its command, and simulated nodes by annotations, how its program behaves.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from tarmac.apps.stockcontrollers.supervisor import left_running
from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess

_IMAGE = "registry.local/tarmac/busybox:1"
_SERVES = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
_WAIT = 120  # seconds: two leases of a killed leader, and the starts of pods on a busy machine
_CRON = 150  # the next minute, and the same


class Story:
    """A planet with the stock controllers, and its user."""

    def __init__(self, planet: TarmacProcess, home: Path) -> None:
        self.planet = planet
        self.kubectl = Kubectl(planet.kubeconfig, home)

    def tell(self, more_nodes: tuple[str, ...]) -> None:
        """Run the whole story. `more_nodes`: flags with which the killed server starts again, with one more node."""
        self._set_up()
        self._kill_controllers()
        self._roll_out_and_undo()
        self._kill_server(more_nodes)
        self._scale_and_spread()
        self._scale_disks()
        self._finish_jobs()
        self._autoscale()
        self._clean_up()

    def _set_up(self) -> None:
        size = {"requests": {"storage": "64Mi"}}
        claim = {"storageClassName": "tarmac-local", "accessModes": ["ReadWriteOnce"], "resources": size}
        template = {"metadata": {"name": "disk"}, "spec": claim}
        mounted = _template("db", volumeMounts=[{"name": "disk", "mountPath": "/disk"}])
        self._apply(
            _owner("Deployment", "web", replicas=2),
            _owner("DaemonSet", "each"),
            _owner(
                "StatefulSet", "db", replicas=2, serviceName="db", template=mounted, volumeClaimTemplates=[template]
            ),
        )
        self._until("deployment/web", "{.status.readyReplicas}", 2)
        self._until("daemonset/each", "{.status.numberReady}", 1)
        self._until("statefulset/db", "{.status.readyReplicas}", 2)

    def _roll_out_and_undo(self) -> None:
        self.kubectl("set", "env", "deployment/web", "COLOUR=green")
        self._rolled_out()
        assert self._read("deployment/web", "{.metadata.annotations.deployment\\.kubernetes\\.io/revision}") == "2"
        self.kubectl("rollout", "undo", "deployment/web")
        self._rolled_out()
        assert self._read("deployment/web", "{.spec.template.spec.containers[0].env}") == ""

    def _scale_and_spread(self) -> None:
        self.kubectl("scale", "deployment/web", "--replicas=3")
        self._until("deployment/web", "{.status.readyReplicas}", 3)
        self._until("daemonset/each", "{.status.numberReady}", 2)
        nodes = self._read("pods", "{.items[*].spec.nodeName}", "-l", "app=each").split()
        assert len(nodes) == len(set(nodes)) == 2

    def _scale_disks(self) -> None:
        volumes = self._read("pvc", "{.items[*].spec.volumeName}")
        self.kubectl("scale", "statefulset/db", "--replicas=1")
        self._kubectl_waits("pod/db-1", "delete")
        self.kubectl("scale", "statefulset/db", "--replicas=2")
        self._until("statefulset/db", "{.status.readyReplicas}", 2)
        assert self._read("pvc", "{.items[*].spec.volumeName}") == volumes

    def _finish_jobs(self) -> None:
        once = _template("once", script="sleep 5", ends="5s")["spec"] | {"restartPolicy": "Never"}
        job = {"template": {**_template("once", ends="5s"), "spec": once}, "completions": 2, "parallelism": 2}
        self._apply(
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"}, "spec": job},
            {
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "metadata": {"name": "tick"},
                "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job}},
            },
        )
        self._until("job/once", "{.status.active}", 2)
        self._kill_controllers()
        self._kubectl_waits("job/once", "condition=Complete")
        assert self._read("job/once", "{.status.succeeded}") == "2"
        self._kubectl_waits("cronjob/tick", "jsonpath={.status.lastSuccessfulTime}", _CRON)

    def _autoscale(self) -> None:
        busy = _template("busy", script="while :; do :; done", cpu="400m", resources={"requests": {"cpu": "50m"}})
        self._apply(_owner("Deployment", "busy", replicas=1, template=busy))
        self.kubectl("autoscale", "deployment/busy", "--min=1", "--max=2", "--cpu-percent=50")
        self._until("deployment/busy", "{.spec.replicas}", 2)
        self._until("hpa/busy", "{.status.desiredReplicas}", 2)

    def _clean_up(self) -> None:
        owners = ("hpa/busy", "deployment/busy", "deployment/web", "daemonset/each", "statefulset/db", "cronjob/tick")
        self.kubectl("delete", *owners, "job/once", "--wait=false")
        self.kubectl.run("wait", "pods", "--all", "--for=delete", f"--timeout={_WAIT}s", timeout=_WAIT + 20)
        assert self.kubectl("get", "pods,jobs,replicasets", "-o", "name") == ""
        self.kubectl("delete", "pvc", "--all", "--wait=false")

    def _kill_controllers(self) -> None:
        """Kill the controllers with kill -9; `up` starts them again."""
        (before,) = self._controllers()
        os.kill(before, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while self._controllers() in ([], [before]):
            assert time.monotonic() < deadline, "the controllers did not come back"
            time.sleep(0.1)

    def _kill_server(self, flags: tuple[str, ...]) -> None:
        """Kill the server with kill -9 and start it with other flags."""
        self.planet.kill()
        self.planet.flags = flags
        self.planet.start()

    def _controllers(self) -> list[int]:
        return left_running(self.planet.data_dir)

    def _apply(self, *objects: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def _read(self, what: str, path: str, *more: str) -> str:
        return self.kubectl("get", what, *more, "-o", f"jsonpath={path}")

    def _until(self, what: str, path: str, value: int) -> None:
        self._kubectl_waits(what, f"jsonpath={path}={value}")

    def _rolled_out(self) -> None:
        done = self.kubectl.run("rollout", "status", "deployment/web", f"--timeout={_WAIT}s", timeout=_WAIT + 20)
        assert done.code == 0, str(done)

    def _kubectl_waits(self, what: str, condition: str, seconds: int = _WAIT) -> None:
        done = self.kubectl.run("wait", what, f"--for={condition}", f"--timeout={seconds}s", timeout=seconds + 20)
        assert done.code == 0, f"{done}\n{self.kubectl.run('get', 'all,pvc,events', '-o', 'wide')}"


def _template(name: str, *, script: str = _SERVES, ends: str = "", cpu: str = "", **container: Any) -> dict[str, Any]:
    told = {"exit-after": ends, "cpu": cpu}
    annotations = {f"sim.tarmac/{key}": value for key, value in told.items() if value}
    return {
        "metadata": {"labels": {"app": name}, "annotations": annotations},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": _IMAGE, "command": ["sh", "-c", script], **container}],
        },
    }


def _owner(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": name}}
    whole = {"selector": selector, "template": _template(name), **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": whole}
