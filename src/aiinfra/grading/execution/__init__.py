"""Running a notebook apart from everything else, and what it tells."""
