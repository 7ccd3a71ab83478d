"""Allocation of resources to pods and containers: computed in one place, used by every part of the agent.

    promises   allocated requests and limits of a pod: those of its spec, once they fit; kept across restarts
    pods       shares, quota, memory and process limits of the pod's cgroup
    containers resources of each container, for the runtime
    allocator  combines the two, and adds the part of every `NodeResource` (CPUs, classes) and every `AskedResource`
               (devices)

Runtime and cgroups apply the allocator's result, status shows it, and eviction compares usage with it.
"""
