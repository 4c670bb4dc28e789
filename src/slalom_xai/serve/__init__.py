"""`slalom serve`: a page and an API on explanations.

The server answers requests and never computes: it does not even import torch. Each model has worker
processes of its own. What both know is in one SQLite file, the store: jobs that wait, jobs under
way, and results. So a page that is reloaded, a worker that dies and a server that is stopped lose
nothing.

    request -> guard -> routes -> service -> store <- work (one process, one model) -> explainer
                                     |                  |
                                     +--- supervisor ---+   starts workers, asks quick questions

`data` holds the rows of a data set, `serving` opens the port.
"""
