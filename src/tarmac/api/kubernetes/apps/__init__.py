"""The kinds of apps, and those of core with a pod template. kube-controller-manager runs them; Tarmac serves them."""
