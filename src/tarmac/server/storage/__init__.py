"""Generic storage: create, read, list, watch, update, patch and delete for every kind."""
