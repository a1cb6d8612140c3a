"""What the commands of a schedule or of a server are made of.

child_command   run a command of Shoal in a child process
seed_query      start URLs that are the rows of a query
"""
