"""The Ray Serve shells: a gateway, a host for each model, the console, the audits. They hold no logic of their own."""
