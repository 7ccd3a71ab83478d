"""How much of a node pods may have: capacity less what is held back, plus what is lent out twice. Pure."""
