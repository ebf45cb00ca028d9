"""Reports: made on a schedule or because somebody asks, kept, shown, compared."""
