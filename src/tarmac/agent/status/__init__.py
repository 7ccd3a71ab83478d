"""Pod status: computed from the runtime state, written to the API when it changed."""
