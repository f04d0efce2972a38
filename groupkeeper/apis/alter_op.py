"""One change that AlterConfigs or IncrementalAlterConfigs asks for.

Source: Kafka's `AlterConfigOp`.
"""

from typing import NamedTuple

from groupkeeper.protocol.messages.incremental_alter_configs import ConfigOperation


class AlterConfigOp(NamedTuple):
    """A change to one config."""

    name: str
    operation: int
    """A `ConfigOperation`, unless the client sent an unknown one."""
    value: str | None

    @property
    def sets(self) -> bool:
        """Whether it needs a value."""
        return self.operation != ConfigOperation.DELETE

    @property
    def edits_a_list(self) -> bool:
        return self.operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT)
