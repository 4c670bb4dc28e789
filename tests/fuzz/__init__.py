"""A fuzz of the whole package: hostile texts, models, options and files; `make fuzz` runs it.

A case is a kind and a seed, such as ``text:17``, and is a function of these two alone:

    text     explains hostile texts by odd models and checks what every explanation promises
    file     loads result files after damage: a clear error, or an explanation that works
    folder   loads model folders after damage: likewise
    list     explains longer texts together, and each alone
    plant    explains a model that is a SLALOM: its scores are found, or the result says otherwise
    api      asks models behind servers that mean harm: a clear error, and no harm
    trust    explains models that are none: what the trust sentence claims holds on fresh rows
    store    opens the server's store after damage: a clear error, or a server that tells it in JSON
    door     odd cookies, hostile hosts and origins: what is the server's own comes in, nothing else
"""
