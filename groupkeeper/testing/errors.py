"""What can go wrong in a test broker."""


class BrokerDown(RuntimeError):  # what happened is the better name
    """The broker does not run: it was not started, has crashed, or was stopped."""


class RequestFailed(RuntimeError):  # see BrokerDown
    """The broker has refused what a test asked of it. One line: what, and why."""
