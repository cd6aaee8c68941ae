"""What is logged, where and when."""
