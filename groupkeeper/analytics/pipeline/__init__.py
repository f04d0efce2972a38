"""The stages of `groupkeeper analyze` between planning and printing, in plain Python over Arrow,
and the processes that run them.
"""
