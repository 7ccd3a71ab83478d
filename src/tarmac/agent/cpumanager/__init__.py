"""Exclusive CPUs for containers: kubelet's CPU manager with the policy `static`.

    manager    assignments; made when a pod is admitted, freed when it has ended (a `NodeResource`)
    state      the file that keeps assignments across restarts of the agent
    placement  applies assignments in the kernel, and verifies them
    runtime    the runtime, which starts no process before its CPUs are vacated
    widening   gives all containers all CPUs again, when the policy is no longer static

With the policy `none` only `widening` is used, and only if a file of the static policy is found.
"""
