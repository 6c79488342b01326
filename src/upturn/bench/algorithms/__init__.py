"""What each way of learning reaches, on toys with known answers and in errands."""
