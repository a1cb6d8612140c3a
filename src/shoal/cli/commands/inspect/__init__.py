"""Commands that read a store, a page or this machine, and change nothing."""
