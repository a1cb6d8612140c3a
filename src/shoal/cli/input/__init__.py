"""What a command reads: options, targets, start URLs, settings, confirmations, secrets."""
