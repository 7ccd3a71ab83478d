"""What Tarmac costs, beside yardsticks measured in the same run: `make bench`."""
