"""A program's side of the service: ask for predictions, wait for people's answers, tell what is true."""
