"""The viewer: what every context of a session was made of, and why; in one file, or live.

`recorded` reads a session's store, `grid` holds the level of every chunk at every step, `replan` decides a recorded
step again, under its own policy or another one. `wire` turns them into JSON, `page` into a self-contained file.
"""
