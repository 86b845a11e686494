"""Visit: fetch a page, extract its text, show the part that is wanted."""
