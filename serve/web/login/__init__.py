"""Who may send a request: keys, logins and scopes, before any application sees it."""
