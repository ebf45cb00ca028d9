"""What to do with a prediction: answer it, or hold it and say why."""
