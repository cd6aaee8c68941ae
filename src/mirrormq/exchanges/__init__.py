"""Where a message goes: exchange types, bindings, and the walk through them."""
