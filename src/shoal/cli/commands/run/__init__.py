"""Commands that start something: crawls, workers, servers, projects."""
