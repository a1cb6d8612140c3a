"""The command line: reads options and settings, calls services, prints results.

    main, app   run a command and turn errors into one line and an exit code; the list of commands
    commands    one module per command
    views       text and live screens
    input       options, targets, start URLs, settings, confirmation
    process     exit codes, signals, log format, running a crawl for the terminal

No decision about crawling is made here. A command module imports what it needs when it runs, so that `--help`
stays quick. Only this package reads the environment, installs signal handlers or writes to the terminal.
Results go to standard output, messages and logs to standard error.
"""
