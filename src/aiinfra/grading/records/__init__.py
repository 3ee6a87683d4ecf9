"""What is written down: the journal, points by hand, the gradebook, and pages for students and instructors."""
