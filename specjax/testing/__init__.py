"""Small targets, exact laws and a toy tokenizer: what tests are made of."""
