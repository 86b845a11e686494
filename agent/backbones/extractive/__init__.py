"""The extractive reader: a deterministic research policy that sees only the rendered context. No language model."""
