"""Leases on SourceIPs: votes and announcements between agents decide the owner, in a thread that nothing delays."""
