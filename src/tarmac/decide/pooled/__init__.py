"""Addresses handed out of ranges: pick, reserve, bind, quota, rest, overlap; for SourceIPs and PublicAddresses."""
