"""The inputs of a command: its flags, people's labels, and the subject that these are on."""
