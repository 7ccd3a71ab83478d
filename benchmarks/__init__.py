"""The costs of Tarmac, beside yardsticks measured in the same run: `make bench`."""
