"""The gate: budgets of a project, the evidence for each, a verdict, and how it is said."""
