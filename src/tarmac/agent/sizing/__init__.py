"""Sizing providers (KEP-2369): programs that determine the node's reservations, run when the node starts.

trust           checks files: only root and the agent's own user may be able to write them
providerconfig  the list of programs, their order and arguments
execution       runs one program within limits
response        parses its response strictly
providers       runs all of them in order; the first that names an amount wins
repeating       repeats this while the node runs, if configured
"""
