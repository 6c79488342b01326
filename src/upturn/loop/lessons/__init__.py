"""Ways of learning, each as one command runs it."""
