"""Vocabulary shared by every layer: time, randomness, quantities, selectors, names, field errors.

Standard library only.
"""
