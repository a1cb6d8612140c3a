"""What values settings may have."""
