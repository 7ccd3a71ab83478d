"""The dashboard: who gets in, what a browser is told, and what is passed on."""
