"""What comes in: archives and folders of submissions, notebooks as they are, the list of a class."""
