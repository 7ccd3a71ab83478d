"""`tarmac image upload`: an operating system for the virtual machines of a namespace, from a file of the user."""
