"""As many instances in each city as its metrics ask for, written through `/scale` and nowhere else."""
