"""What all pages for people share: the look, who visits, and how trouble is told."""
