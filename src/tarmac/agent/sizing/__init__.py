"""Sizing providers (KEP-2369): programs that say how much of the machine is held back, asked when the node starts.

trust           which files are believed: nobody but root and the agent's own user can have written them
configuration   which programs, in which order, with which arguments
execution       one program, run to its end within limits
response        what it answered, read strictly
providers       all of them, one after another; the earliest that names an amount wins
repeating       the same again while the node lives, if it is asked for
"""
