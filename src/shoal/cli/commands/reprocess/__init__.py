"""Commands that use archived pages and items again: reparse, export, diff."""
