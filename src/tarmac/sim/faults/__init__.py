"""Everything that can go wrong, drawn from one seed and counted."""
