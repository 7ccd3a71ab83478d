"""HorizontalPodAutoscaler. kube-controller-manager runs it; Tarmac serves it."""
