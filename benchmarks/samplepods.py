"""A typical Pod, and the status of its node: requests of `make bench` and of the budgets of the tests."""

from __future__ import annotations

POD_SPEC = {
    "schedulerName": "nobody",
    "containers": [
        {
            "name": "main",
            "image": "registry.example/app:1",
            "ports": [{"containerPort": 80}],
            "env": [{"name": "A", "value": "b"}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        }
    ],
}
POD_STATUS = {
    "phase": "Running",
    "hostIP": "10.0.0.1",
    "podIP": "10.1.0.2",
    "podIPs": [{"ip": "10.1.0.2"}],
    "startTime": "2026-01-01T00:00:00Z",
    "conditions": [
        {"type": name, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for name in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ],
    "containerStatuses": [
        {
            "name": "main",
            "image": "registry.example/app:1",
            "imageID": "sha256:1",
            "containerID": "containerd://1",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }
    ],
}
