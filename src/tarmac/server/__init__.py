"""The API server: HTTP, authentication, authorization, admission, storage semantics, patch and apply, watch, tables."""
