"""The memory as a service: selection over HTTP, sessions for other people's agents, and the client that never hangs.

`selecting` is the selection itself, for use in process; `client` reaches it over HTTP and needs no extra; `app` makes
the server out of `gate` (security), the routes and `sessions`.
"""
