"""`demur rank`: a tournament between texts."""
