"""What the providers' wire formats share: fragments, event streams, faults, tool calls."""
