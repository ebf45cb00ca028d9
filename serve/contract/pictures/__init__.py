"""Files of pictures, read piece by piece before a decoder sees them: one module for each format."""
