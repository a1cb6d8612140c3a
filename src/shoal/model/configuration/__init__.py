"""What values settings may have."""

ENVIRONMENT = "SHOAL_"
"""How the names of variables that are settings begin."""
