"""`tarmac device-plugin nvidia`: offers NVIDIA's GPUs of this machine through the device plugin API (v1beta1).

    gpunames        product name → resource name, with the table of exceptions
    kerneldriver    the GPUs and the driver's version, read from /proc/driver/nvidia; and its device nodes
    driverfiles     the driver's libraries and programs, and their mounts in a container
    nvml            NVIDIA's management library (NVML), through ctypes
    nvmlprogram     prints one sample of the GPUs and ends, so that NVML stays out of the plugin
    sampling        runs it, within a timeout
    samples         its document, checked
    kernellog       XIDs from /dev/kmsg
    xids            numbers of GPU errors, their meaning, and those that are an application's own
    heldnodes       open device nodes, so that the driver does not shut a GPU down between two samples
    gpus            all GPUs of the machine, with their health and figures
    allocation      the settings of a container that gets GPUs (pure)
    pluginmessages  the messages of the API, encoded by hand (pure)
    plugin          the service for kubelet or the agent: one socket for each model
    pluginprocess   the command: until a signal
    program         looks at the GPUs every few seconds, hears of XIDs, runs the plugins
    report          the figures of all GPUs as a file, which the agent reads
    gpureport       the same as the agent reads it, and the events of its changes
    gpumetrics      figures of GPUs as the agent's metrics
    supervising     the agent's side: runs the program and reads its report

The program is a process of its own, so that a crash of the driver's library ends nothing else. It knows no Tarmac API:
kubelet can use it, and NVIDIA's own plugin can take its place.
"""
