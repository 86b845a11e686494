"""What becomes of a memory that grows: copies found, cold text packed, and, only when asked to, text evicted."""
