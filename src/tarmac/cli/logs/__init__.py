"""`tarmac logs`: the logs of many containers in many cities as one, ordered by time."""
