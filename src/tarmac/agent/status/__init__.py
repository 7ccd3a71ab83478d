"""Pod status: worked out from what runs, written to the API when it changed."""
