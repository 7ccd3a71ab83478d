"""Generic storage: what create, read, list, watch, update, patch and delete mean for every kind."""
