"""The command `label`: a page on this machine to give labels, and the file that keeps them."""
