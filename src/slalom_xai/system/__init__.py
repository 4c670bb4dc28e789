"""What the package needs of the machine: files that are whole or not there, threads, Ctrl-C."""
