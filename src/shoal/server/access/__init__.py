"""Who may do what: tokens and their roles, sessions of browsers, Host and Origin, rates."""
