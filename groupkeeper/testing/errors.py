"""What can go wrong in a test broker."""


class BrokerDown(RuntimeError):  # what happened is the better name
    """The broker does not run: it was not started, has crashed, or was stopped."""


class RequestFailed(RuntimeError):  # see BrokerDown
    """The broker has refused what a test asked of it. One line: what, and why."""


class WaitTimedOut(AssertionError):  # see BrokerDown
    """A group has not become as a test wanted it. The text says what is not so, what the group is
    doing, and whom it waits for.
    """


class WrongArgument(ValueError):  # see BrokerDown
    """An argument names something that does not exist, or does not fit. One line: what, and what to
    write instead.
    """


class RuleNeverFired(AssertionError):  # see BrokerDown
    """A fault rule that the test made never fired, so the test did not test that fault."""
