"""The smallest change that would turn a refusal into an approval."""
