"""Tarmac's own verbs over a client: `why`, `plan`, `rollout`. Each prints, and returns an exit code."""
