"""The resources that Tarmac's own programs use, each named once: as decoded JSON, or as declared kinds."""
