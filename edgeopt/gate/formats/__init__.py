"""How a verdict is said: one file a form, each a function from `Verdicts` to text."""
