"""The small language model itself: examples, tokenizer, training, file."""
