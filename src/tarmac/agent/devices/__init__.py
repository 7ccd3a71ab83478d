"""Devices of the node, as kubelet's device plugin API (v1beta1) gives them to containers.

    folder        the folder where plugins and the agent have their sockets, and who may use it
    registration  the service on `kubelet.sock` where plugins say that they exist
    plugins       one plugin: its lists of devices, and the calls that it answers
    inventory     which devices there are, how they are, and how many of each the node has
    choice        which of them a container gets (pure)
    holdings      who has which
    checkpoint    the same on disk, so that no device is ever given twice
    answers       what a plugin wants in a container (pure)
    manager       puts these together, as the allocator asks for it

Plugins are programs of others. Whatever one does (floods, repeats itself, dies, answers late or nonsense) costs bounded
memory and time, and concerns only those pods that ask for its devices.
"""
