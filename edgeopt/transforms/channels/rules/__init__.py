"""What each operator does to the axes of what it reads: one function an operator or family."""
