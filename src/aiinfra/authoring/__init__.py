"""What authors of the book run: notebooks from their source, a new chapter from its template."""
