"""How well estimators of credit find the turn that earned a reward, and how fast a policy learns from each."""
