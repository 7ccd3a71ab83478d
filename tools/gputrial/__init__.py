"""`make gpu-trial`: tests a GPU on a machine that has one, from the package alone, with one table at the end.

    program   measures one GPU: runs inside and outside the sandbox
    image     a container image made of this machine's Python and CUDA libraries
    machine   the package, `tarmac up` and kubectl on this machine
    story     one GPU in one sandbox: its speed, and pods without access to it
    faults    a second instance that waits, kill -9 at every step, and the hand-over
    watch     counts the containers with each GPU all the while, by gVisor's own list
    table     rows, bars and the table
    survey    files that explain a failure, since the machine is gone afterwards

Only the standard library of Python 3.12, no network: a bare Ubuntu 24.04 with NVIDIA's driver and CUDA is enough.
"""
