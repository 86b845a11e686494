"""What folding policies need from the loop: tools by which a model shapes its own context."""
