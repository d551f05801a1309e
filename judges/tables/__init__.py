"""Read and write tables row by row, in every format."""
