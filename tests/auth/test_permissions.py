"""Permissions: decisions and refusals as seen on RabbitMQ 3.10.8, and a cache that never lies."""

from __future__ import annotations

from mirrormq.auth import access_errors
from mirrormq.auth.permissions import Permissions
from mirrormq.metadata import commands as c
from mirrormq.metadata import records as r
from mirrormq.metadata.state import MetadataState


def state_with(configure: str = ".*", write: str = ".*", read: str = ".*") -> MetadataState:
    state = MetadataState()
    state.apply(c.PutVhost(r.Vhost("/")))
    state.apply(c.PutUser(r.User("u")))
    state.apply(c.PutPermission(r.Permission("u", "/", configure, write, read)))
    return state


def test_each_access_has_its_own_pattern() -> None:
    permissions = Permissions(state_with("^c", "^w", "^r"))
    for letter, access in (("c", "configure"), ("w", "write"), ("r", "read")):
        for name in ("cq", "wq", "rq"):
            assert permissions.check("u", "/", name, access) is name.startswith(letter)  # type: ignore[arg-type]


def test_the_default_exchange_goes_by_the_name_amq_default() -> None:
    assert Permissions(state_with(write="^amq.default$")).check("u", "/", "", "write")
    assert not Permissions(state_with(write="^u")).check("u", "/", "", "write")
    assert not Permissions(state_with(write="")).check("u", "/", "", "write")


def test_without_a_record_nothing_is_permitted() -> None:
    permissions = Permissions(state_with())
    assert permissions.vhost_access("u", "/")
    assert not permissions.vhost_access("u", "other")
    assert not permissions.check("stranger", "/", "q", "read")


def test_a_record_that_matches_nothing_still_opens_the_vhost() -> None:
    assert Permissions(state_with("", "", "")).vhost_access("u", "/")


def test_a_change_of_permissions_counts_at_once() -> None:
    state = state_with()
    permissions = Permissions(state)
    assert permissions.check("u", "/", "q", "read")
    state.apply(c.PutPermission(r.Permission("u", "/", ".*", ".*", "")))
    assert not permissions.check("u", "/", "q", "read")
    state.apply(c.PutPermission(r.Permission("u", "/", ".*", ".*", "q")))
    assert permissions.check("u", "/", "q", "read")
    state.apply(c.DeleteUser("u"))
    assert not permissions.check("u", "/", "q", "read")


def test_the_cache_is_bounded() -> None:
    permissions = Permissions(state_with(read="^q"), answers_max=10)
    for number in range(100):
        assert permissions.check("u", "/", f"q{number}", "read")
        assert not permissions.check("u", "/", f"x{number}", "read")
        assert len(permissions._answers) <= 10


def topic(write: str, read: str) -> Permissions:
    state = state_with()
    state.apply(c.PutTopicPermission(r.TopicPermission("u", "/", "ux", write, read)))
    return Permissions(state)


def test_topic_permissions_expand_names() -> None:
    permissions = topic("^{username}\\.{vhost}", "^r")
    assert not permissions.check_topic("u", "/", "ux", "a.b", "write")
    assert permissions.check_topic("u", "/", "ux", "u./.b", "write")
    assert not permissions.check_topic("u", "/", "ux", "k", "read")
    assert permissions.check_topic("u", "/", "ux", "rk", "read")


def test_an_exchange_without_topic_permission_is_free() -> None:
    assert topic("", "").check_topic("u", "/", "other", "k", "write")


def test_an_empty_topic_pattern_matches_the_empty_key_only() -> None:
    permissions = topic("", "")
    assert not permissions.check_topic("u", "/", "ux", "k", "write")
    assert permissions.check_topic("u", "/", "ux", "", "write")


def test_client_id_is_itself_where_there_is_none() -> None:
    permissions = topic("^{client_id}$", "")
    assert not permissions.check_topic("u", "/", "ux", "k", "write")
    assert permissions.check_topic("u", "/", "ux", "{client_id}", "write")
    assert permissions.check_topic("u", "/", "ux", "k", "write", {"client_id": "k"})
    assert not permissions.check_topic("u", "/", "ux", "{client_id}", "write", {"client_id": "k"})


def test_an_impersonator_may_name_any_user() -> None:
    permissions = Permissions(state_with())
    assert permissions.user_id_allowed(r.User("u"), "u")
    assert not permissions.user_id_allowed(r.User("u"), "z")
    assert permissions.user_id_allowed(r.User("u", tags=["impersonator"]), "z")


def test_refusals_are_worded_as_rabbitmq_words_them() -> None:
    assert access_errors.resource_refused("queue", "q", "/", "u") == (
        "access to queue 'q' in vhost '/' refused for user 'u'"
    )
    assert access_errors.resource_refused("exchange", "", "/", "u") == (
        "access to exchange 'amq.default' in vhost '/' refused for user 'u'"
    )
    assert access_errors.topic_refused("a.b", "ux", "/", "u") == (
        "access to topic 'a.b' in exchange 'ux' in vhost '/' refused for user 'u'"
    )
    assert access_errors.vhost_refused("/", "u") == "access to vhost '/' refused for user 'u'"
    assert access_errors.vhost_not_found("nope") == "vhost nope not found"
    assert access_errors.user_id_refused("z", "u") == (
        "user_id property set to 'z' but authenticated user was 'u'"
    )
