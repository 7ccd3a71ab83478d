"""What each pod of this node, and each of its containers, is given: one answer, asked once and used by everybody.

    promises   which requests and limits a pod has been promised: what it asks for, once that fits; kept across restarts
    pods       what follows for the pod as a whole: shares, quota, memory and processes of its cgroup
    containers what follows for each container, as the runtime is told
    allocator  puts the two together, and asks every `NodeResource` (processors, classes) and every `AskedResource`
               (devices) for its part

The runtime and the cgroups are told what the allocator says; status shows it and eviction judges by it.
"""
