"""`groupkeeper demo`: rebalances of real consumers in a minute."""
