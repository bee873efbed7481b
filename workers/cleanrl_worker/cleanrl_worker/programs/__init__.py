"""What the training process runs when it does not train: programs that need torch."""
