"""What only programs that are not on this machine's command line need: submissions and seeds as messages.

submission  judge seeds, and turn a submission into the arguments of a command
processes   run the crawls of a folder in child processes
seeds       add start URLs to a crawl that exists
items       read items page by page
downloads   items in a format, pages as WARC, a report, as files
"""
