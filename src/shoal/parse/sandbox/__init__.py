"""The sandbox of processes that run user code: namespaces, Landlock, resource limits, an audit hook."""
