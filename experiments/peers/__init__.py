"""Other systems on the same weights, prompts and machine; run by hand."""
