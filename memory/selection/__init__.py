"""Selection under a budget, as a library of its own: arrays in, arrays out, no I/O.

`facility` chooses items (PACMS), `levels` a resolution for every item (Mosaic); both maximise facility location with a
lazy queue over a `similarity`. `graph` keeps the similarities of a growing set of keys. `ranked` and `mmr` are the
simple rules to compare with.
"""
