"""What the engine writes to the fetch log (`shoal.archive.fetch_log`): a row for each attempt that ended."""
