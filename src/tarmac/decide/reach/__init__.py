"""Who may reach whom: what policies and Services come to, for nodes that make it so and people who ask about it."""
