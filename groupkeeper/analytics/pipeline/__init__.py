"""The steps of `groupkeeper analyze` between planning and printing, and the two engines that run
them. What they compute is plain Python over Arrow, the same on each engine (docs/decisions/018).
"""
