"""Arrow for `groupkeeper.history`: the tables' schemas, what the fold is fed of the parser's
columns, and its rows as Arrow tables. No Spark here.
"""
