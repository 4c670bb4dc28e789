"""What lasts: jobs and results in one SQLite file that server and workers share."""
