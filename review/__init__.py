"""The queue of held predictions, and what people said about them."""
