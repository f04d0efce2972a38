"""Exceptions raised by the test broker."""


class BrokerDown(RuntimeError):  # clearer in a traceback than a name that ends in Error
    """The broker is not running: it was not started, has crashed, or was stopped."""


class RequestFailed(RuntimeError):  # see BrokerDown
    """The broker rejected a request of the test. The message is one line with the reason."""


class WaitTimedOut(AssertionError):  # see BrokerDown
    """A group did not meet the conditions of `wait_until` in time. The message lists the unmet
    conditions, the state of the group, and the members it is waiting for.
    """


class WrongArgument(ValueError):  # see BrokerDown
    """An argument names something that does not exist, or is not applicable. The message is one
    line that suggests a correction.
    """


class RuleNeverFired(AssertionError):  # see BrokerDown
    """A fault rule of the test never fired, so that fault was not tested."""
