"""The process of a command: exit codes, signals, keys, log lines, running a crawl for the terminal."""
