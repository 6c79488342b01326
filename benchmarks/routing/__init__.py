"""Measurements of routing: intervals of off-policy estimates, and the identification of the best agent."""
