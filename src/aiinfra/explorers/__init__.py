"""What a reader moves: one module a chapter, each explorer an ordinary ipywidgets function."""
