"""PodSecurity: the Pod Security Standards, enforced by namespace labels."""
