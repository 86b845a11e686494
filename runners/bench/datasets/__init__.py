"""One benchmark a file: how its data is read, its template, its scorers."""
