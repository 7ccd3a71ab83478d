"""ResourceQuota: what a namespace holds, counted as it changes, and the limit that new objects meet."""
