"""Terminal sessions of the real kubectl, replayed and compared word for word."""
