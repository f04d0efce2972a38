"""`groupkeeper tokens`: the bearer tokens of the HTTP port."""
