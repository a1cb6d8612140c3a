"""What a command prints: screens, tables, summaries; wrapped, printable and in plain words."""
