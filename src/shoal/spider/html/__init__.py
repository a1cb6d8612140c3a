"""HTML: the Lexbor and lxml trees behind selectors, links, canonical URLs, visible text."""
