"""The python tool: a persistent interpreter in a sandbox. Not offered where the host cannot isolate it."""
