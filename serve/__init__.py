"""The roof: HTTP, Ray, configuration, command line, pages, and all wiring."""
