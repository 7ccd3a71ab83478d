"""Processors that a container has to itself: who gets them, how many, and which ones.

    topology   the processors of a machine: their cores, sockets and NUMA nodes
    exclusive  how many processors of its own each container of a pod gets, and the pod at most at one time
    packing    which processors a request is given: kubelet's packed order, to the processor
    assigning  the processors of every container of one pod
    pools      which processors are reserved, and which ones all the others share

The agent, the scheduler and simulated nodes all ask here.
"""
