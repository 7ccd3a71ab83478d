"""Access to the API objects that pods of this node refer to, and to no other objects."""
