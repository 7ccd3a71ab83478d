"""The smallest change that would turn a "no" into a "yes"."""
