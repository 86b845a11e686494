"""Pages that go wrong in every way we know of: what each route sends, and how a visit has to end."""
