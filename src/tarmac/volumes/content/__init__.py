"""What is in the files of a projected volume: pure functions of objects."""
