"""The node API of simulated nodes: logs, a small shell, a page on every declared port, and consoles of machines.

No program runs and no file is read. Everything that a client sees is computed from the Pod and the time.
"""
