"""Exclusive CPUs: the static CPU manager's decisions.

    topology   the CPUs of a host: their cores, sockets and NUMA nodes
    exclusive  the number of exclusive CPUs of each container, and the peak of a pod
    packing    the choice of CPUs for a request: exactly the kubelet's packed order
    assigning  the exclusive CPUs of every container of one pod
    pools      the reserved CPUs and the shared ones

The agent, the scheduler and simulated nodes all use this package.
"""
