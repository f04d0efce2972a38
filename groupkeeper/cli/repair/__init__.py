"""`groupkeeper repair`: salvages damaged logs."""
