"""The sandbox of processes that run user code.

confine       enters the sandbox: namespaces, user, and the measures below
seccomp       which system calls are allowed; `syscalls` has their numbers
landlock      which files may be read; `readable` decides which
limits        memory, open files, processes
guarantees    what holds in the end, and what is missing
"""
