"""A machine of a cluster of several: how it is set up, joins and leaves. Each step looks at what is there."""
