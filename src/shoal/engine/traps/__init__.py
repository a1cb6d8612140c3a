"""Links that lead into a trap: patterns whose pages bring nothing new are closed, and their links held."""
