"""Classes of QoS-class resources on this node: `blockio`, `rdt`, and types that a runtime announces.

    classdiscovery  the owner of each type and its classes: from the runtime, its files, our file, the kernel
    resource        admission of new and changed pods, and the classes that they get
    kernel          puts the processes of a cgroup into a class, and reports their class; independent of containers
    keeper          does so for pods: before a container starts, on changes, and after changes by other programs

`blockiofile`, `runtimefiles`, `resctrl` and `disks` read the inputs of these modules.
"""
