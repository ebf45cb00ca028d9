"""What an audit reads: every record of a model, what is known of it, and who was asked."""
