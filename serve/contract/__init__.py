"""What web, gateway, hosts and jobs hand to each other."""
