"""Search: the provider seam, the local corpus, the ``search`` tool."""
