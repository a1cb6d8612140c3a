"""The handlers of the API by topic; `table` has all routes."""
