"""Pod statuses and their writer."""
