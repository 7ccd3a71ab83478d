"""`tarmac server --processes N`: the parent, its workers, and the duties of a single worker."""
