"""The command line: reads what a person asked for, shows what happens, ends with a code that says how.

Nothing is decided here about crawling. `main` runs a command and turns errors into one line and an exit
code (`exits`); `app` names the commands; each has a module of its own that imports the runtime only when it
runs, so that `--help` stays quick. This is the only package that reads the environment, installs signal
handlers or writes to the terminal. Results go to standard output, everything said along the way goes to
standard error.
"""
