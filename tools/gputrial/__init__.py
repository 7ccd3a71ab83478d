"""`make gpu-trial`: the story of a GPU on a machine that has one, from the package alone, with one table at the end.

    program   measures one GPU: runs inside and outside the sandbox
    image     a container image made of this machine's Python and CUDA libraries
    machine   the package, `tarmac up` and kubectl on this machine
    story     the steps and their rows
    table     rows, bars and the table

Only the standard library of Python 3.12, no network: a bare Ubuntu 24.04 with NVIDIA's driver and CUDA is enough.
"""
