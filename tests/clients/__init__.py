"""Client libraries of users."""
