"""`tarmac server --processes N`: a parent, its workers, and what only one of them does."""
