"""What is run: dataflows with an input and an answer that is known."""
