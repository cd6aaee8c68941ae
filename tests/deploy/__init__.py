"""What is in deploy/, as far as it can be run without the platforms it is for."""
