"""Job and CronJob. kube-controller-manager runs them; Tarmac serves them."""
