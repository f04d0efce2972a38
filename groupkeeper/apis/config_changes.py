"""What AlterConfigs and IncrementalAlterConfigs want of one resource, in one form.

Not what becomes of it.
"""

from typing import NamedTuple

from groupkeeper.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from groupkeeper.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalAlterConfigsResource,
)
from groupkeeper.protocol.messages.incremental_alter_configs import (
    ConfigOperation,
    IncrementalAlterConfigsRequest,
)

AlterRequest = AlterConfigsRequest | IncrementalAlterConfigsRequest
AlterResource = AlterConfigsResource | IncrementalAlterConfigsResource


class Change(NamedTuple):
    """One wish."""

    name: str
    operation: int
    """A ConfigOperation, if the client means well."""
    value: str | None

    @property
    def sets(self) -> bool:
        """Whether it needs a value."""
        return self.operation != ConfigOperation.DELETE

    @property
    def edits_a_list(self) -> bool:
        return self.operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT)


def changes_of(resource: AlterResource) -> list[Change]:
    """In the order given. AlterConfigs can only set."""
    if isinstance(resource, AlterConfigsResource):
        return [Change(c.name, ConfigOperation.SET, c.value) for c in resource.configs]
    return [Change(c.name, c.config_operation, c.value) for c in resource.configs]


def no_list(change: Change) -> str:
    """What Kafka says to an APPEND or SUBTRACT where there is no list."""
    verb = ConfigOperation(change.operation).name
    return f"Can't {verb} to key {change.name} because its type is not LIST."
