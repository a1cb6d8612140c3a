"""Commands that change a store: dead letters, hosts, exits, pauses, schedules, tokens."""
