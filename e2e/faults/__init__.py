"""What may happen to a dataflow: each fault is one function, which returns when it has happened."""
