"""What a command does to a crawl that exists already, and why.

`facts` says what is compared: the crawl as the store has it, and the command as it was typed. `decide` is the
one pure function of both. `outcome` raises what ends a command there, and `reopen` finds again what narrower
limits had left out.
"""
