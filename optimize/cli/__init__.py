"""What the commands do on the outside: flags in, results and one clear line out."""
