"""What a command is given: its flags, and the labels with what they are about."""
