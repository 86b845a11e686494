"""The durable chunk store. All of longstride's session SQL lives in this package."""
