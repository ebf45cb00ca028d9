"""Commands that ask a running service about all rows of a file, or tell it what is true of them."""
