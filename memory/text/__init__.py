"""Pure text functions: words, sentences, lexical scores, rank fusion, passages, salient strings."""
