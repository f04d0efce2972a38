"""The authorizer of a server, as its settings say."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from groupkeeper.settings.table import Settings, SettingsError

if TYPE_CHECKING:
    from groupkeeper.apis.rights.client import Rights


def rights_of(
    settings: Settings, access: Mapping[str, Mapping[str, object]], denied: Counter[tuple[str, ...]]
) -> "Rights | None":
    """Return the authorizer with the ACLs of the catalog, which counts in `denied`; None if there
    is none. Raises SettingsError.
    """
    if not settings.authorizer_class_name:
        return None
    from groupkeeper.access.acls import stored_acls
    from groupkeeper.access.authorizer import authorizer_of
    from groupkeeper.apis.rights.client import Rights

    allow = settings.allow_everyone_if_no_acl_found
    try:
        users = settings.super_users
        authorizer = authorizer_of(users, allow_if_no_acl=allow, acls=stored_acls(access))
    except ValueError as problem:
        raise SettingsError(f"super.users: {problem}") from None
    return Rights(authorizer, denied)
