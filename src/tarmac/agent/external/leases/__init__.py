"""Which node carries an address: leases, votes and announcements between agents, in a thread that nothing delays."""
