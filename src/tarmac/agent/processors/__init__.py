"""Processors that containers have to themselves: kubelet's CPU manager with the policy `static`.

    manager    who has which; chosen when a pod is admitted, given back when it has ended (a `NodeResource`)
    state      the file that keeps this across restarts of the agent
    placement  makes it so in the kernel, and keeps it so
    runtime    the runtime, where no process begins before the others have left its processors
    widening   gives everybody all processors again, when the policy is static no longer

With the policy `none` there is none of this but `widening`, if a file of the other policy is found.
"""
