"""What the package needs of the machine: whole files, threads, Ctrl-C, a clock."""
