"""`groupkeeper repair`: what is left of damaged logs."""
