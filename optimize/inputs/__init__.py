"""The inputs of a command: its flags, people's labels, and the dimension that they are on."""
