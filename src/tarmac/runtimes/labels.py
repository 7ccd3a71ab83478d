"""How sandboxes and containers say whose they are: kubelet's own keys, so that its tools understand ours.

Labels select (the runtime can filter by them), annotations only tell. Everything needed to end a container of a pod
whose definition is lost is in the annotations.
"""

from __future__ import annotations

POD_NAME = "io.kubernetes.pod.name"
POD_NAMESPACE = "io.kubernetes.pod.namespace"
POD_UID = "io.kubernetes.pod.uid"
CONTAINER_NAME = "io.kubernetes.container.name"

HASH = "io.kubernetes.container.hash"
RESTART_COUNT = "io.kubernetes.container.restartCount"
TERMINATION_PATH = "io.kubernetes.container.terminationMessagePath"
TERMINATION_POLICY = "io.kubernetes.container.terminationMessagePolicy"
PRE_STOP = "io.kubernetes.container.preStopHandler"
PORTS = "io.kubernetes.container.ports"
TERMINATION_GRACE = "io.kubernetes.pod.terminationGracePeriod"
DELETION_GRACE = "io.kubernetes.pod.deletionGracePeriod"
