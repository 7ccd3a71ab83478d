"""Classes of QoS-class resources on this node: `blockio`, `rdt`, and what a runtime announces.

    discovery    who owns each type and which classes there are: from the runtime, its files, our file, the kernel
    resource     whether a new pod, or a changed one, can have its classes, and which ones it is given
    kernel       puts the processes of a cgroup into a class, and says which one they are in; knows no containers
    keeper       does so for pods: before a container starts, when it changes, and whenever somebody else changed it

`blockiofile`, `runtimefiles`, `resctrl` and `disks` read what the others need to know.
"""
