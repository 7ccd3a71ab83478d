"""Devices of the node, allocated to containers through kubelet's device plugin API (v1beta1).

    nvidia         the device plugin for NVIDIA's GPUs, a program of its own
    socketname     the name of the agent's socket
    folder         the folder with the sockets of plugins and of the agent, and its permissions
    registration   the service on `kubelet.sock` where plugins register
    plugins        one plugin: its lists of devices, and its calls
    inventory      the devices, their health, and the number of each kind
    choice         selects the devices of a container (pure)
    holdings       the devices in use
    checkpoint     the same on disk, so that no device is ever given twice
    answers        a plugin's settings for a container (pure)
    devicemanager  combines these for the allocator

Plugins are third-party programs. Any misbehaviour (floods, repetition, crashes, late or invalid answers) costs bounded
memory and time, and affects only pods that request its devices.
"""
