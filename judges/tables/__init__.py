"""Tables: every format read and written once, row by row."""
