"""Valid settings are read, invalid ones are refused with a sentence that names source and key."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mirrormq.config.conf import ConfEntry, parse_conf
from mirrormq.config.cookie import find_cookie, read_or_make
from mirrormq.config.keys import FAMILIES, SCALARS, WITHOUT_MEANING
from mirrormq.config.settings import Address, CorsOptions, Seed, Settings
from mirrormq.config.settings_loader import UNNAMED_HOST, load_settings
from mirrormq.errors import ConfigurationError


def settings_of(text: str, tmp_path: Path, environment: dict[str, str] | None = None) -> Settings:
    """Load a configuration file with this text."""
    file = tmp_path / "node.conf"
    file.write_text(text)
    return load_settings(environment=environment or {}, conf=file)


GOOD = [
    ("listeners.tcp.default = 5673", "amqp_listeners", (Address("", 5673),)),
    ("listeners.tcp.1 = 127.0.0.1:5672\nlisteners.tcp.2 = ::1:5672", "amqp_listeners",
     (Address("127.0.0.1", 5672), Address("::1", 5672))),
    ("listeners.tcp.10 = 10\nlisteners.tcp.9 = [::1]:9", "amqp_listeners",
     (Address("::1", 9), Address("", 10))),
    ("heartbeat = 0", "heartbeat_s", 0),
    ("heartbeat=30   # half", "heartbeat_s", 30),
    ("handshake_timeout = 20000", "handshake_timeout_s", 20.0),
    ("vm_memory_high_watermark.absolute = 512MB", "memory_high_watermark_bytes", 512_000_000),
    ("vm_memory_high_watermark.absolute = 2GiB", "memory_high_watermark_bytes", 2 * 1024**3),
    ("vm_memory_high_watermark.absolute = 1G", "memory_high_watermark_bytes", 1024**3),
    ("vm_memory_high_watermark.absolute = 1kB", "memory_high_watermark_relative", None),
    ("vm_memory_high_watermark.relative = 0.6", "memory_high_watermark_relative", 0.6),
    ("disk_free_limit.absolute = 50000", "disk_free_limit_bytes", 50000),
    ("disk_free_limit.relative = 1.5", "disk_free_limit_bytes", None),
    ("loopback_users = none", "loopback_users", ()),
    ("loopback_users.guest = false", "loopback_users", ()),
    ("loopback_users.anna = true", "loopback_users", ("anna",)),
    ("default_user_tags.monitoring = true", "default_user_tags", ("monitoring",)),
    ("default_pass = 'a # b'", "default_pass", "a # b"),
    ("default_pass = a#b", "default_pass", "a#b"),
    ("consumer_timeout = undefined", "consumer_timeout_ms", None),
    ("auth_mechanisms.1 = EXTERNAL\nauth_mechanisms.2 = PLAIN", "auth_mechanisms", ("EXTERNAL", "PLAIN")),
    ("cluster_partition_handling = pause_minority", "cluster_partition_handling", "pause_minority"),
    ("cluster_formation.classic_config.nodes.2 = b@h\ncluster_formation.classic_config.nodes.1 = a@h",
     "classic_config_nodes", (Seed("a@h", Address("h", 25672)), Seed("b@h", Address("h", 25672)))),
    ("cluster_formation.peer_discovery_backend = classic_config\n"
     "cluster_formation.classic_config.nodes.1 = a@h.example:99",
     "classic_config_nodes", (Seed("a@h.example", Address("h.example", 99)),)),
    ("join.1 = a@h:99", "join", (Seed("a@h", Address("h", 99)),)),
    ("cluster.advertised = 10.0.0.1:99", "cluster_advertised", Address("10.0.0.1", 99)),
    ("management.tcp.port = 8080\nmanagement.tcp.ip = 127.0.0.1", "management_listener",
     Address("127.0.0.1", 8080)),
    ("management.cors.allow_origins.1 = https://a\nmanagement.cors.max_age = 5", "cors",
     CorsOptions(allow_origins=("https://a",), max_age_s=5)),
    ("management.cors.allow_origins = none\nmanagement.cors.max_age = undefined", "cors",
     CorsOptions(max_age_s=None)),
    ("heartbeat = 10\nheartbeat = 20", "heartbeat_s", 20),
    ("# only a comment\n\n   ", "heartbeat_s", 60),
    ("product.version = 3.9.0", "product_version", "3.9.0"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "field", "expected"), GOOD)
def test_a_good_line_ends_in_its_field(text: str, field: str, expected: object, tmp_path: Path) -> None:
    assert getattr(settings_of(text, tmp_path), field) == expected


BAD = [
    ("heartbeat", "node.conf:1: expected `key = value`, found `heartbeat`."),
    ("\nheartbeat = soon", "node.conf:2: heartbeat must be a whole number from 0 to 65535, not `soon`."),
    ("heartbeat = 70000", "heartbeat must be a whole number from 0 to 65535, not `70000`."),
    ("heartbeat =", "node.conf:1: heartbeat has no value."),
    ("hartbeat = 5", "node.conf:1: unknown key hartbeat; the nearest known key is heartbeat."),
    ("ssl_options.certfil = x",
     "unknown key ssl_options.certfil; the nearest known key is ssl_options.certfile."),
    ("zzz = 5", "node.conf:1: unknown key zzz."),
    ("listeners.tcp.default = here", "listeners.tcp.default must be PORT or HOST:PORT, not `here`."),
    ("listeners.tcp.default = 1.2.3.4:99999", "must be PORT or HOST:PORT"),
    ("listeners.tcp = 5672", "listeners.tcp must be one of none, not `5672`."),
    ("vm_memory_high_watermark.absolute = 5 apples", "must be a number of bytes with an optional unit"),
    ("vm_memory_high_watermark.relative = -1", "must be a number above 0, not `-1`."),
    ("cluster_formation.peer_discovery_backend = consul", "must be one of classic_config"),
    ("cluster_formation.classic_config.nodes.1 = a", "must be NAME@HOST or NAME@HOST:PORT"),
    ("join.1 = a@h:port", "must be NAME@HOST or NAME@HOST:PORT"),
    ("join.1 = a@h:0", "must be NAME@HOST or NAME@HOST:PORT"),
    ("cluster_partition_handling = pause", "must be one of ignore, pause_minority"),
    ("cluster_partition_handling = pause_if_all_down",
     "needs cluster_partition_handling.pause_if_all_down.nodes.1"),
    ("proxy_protocol = maybe", "proxy_protocol must be true or false, not `maybe`."),
    ("default_pass = 'open", "node.conf:1: the quoted value of default_pass has no closing quote."),
    ("listeners.ssl.default = 5671", "listeners.ssl needs ssl_options.certfile and ssl_options.keyfile."),
    ("management.ssl.port = 15671",
     "management.ssl.port needs management.ssl.certfile and management.ssl.keyfile."),
    ("management.cors.max_age = soon", "management.cors.max_age must be a number of seconds, or undefined"),
    ("ssl_options.certfile = /no/such.pem", "ssl_options.certfile must be a readable file"),
    ("auth_backends.1 = ldap", "auth_backends.1 must be one of internal"),
    ("credential_validator.min_length = 5",
     "MirrorMQ does not support credential_validator.min_length; remove it."),
    ("frame_max = 100", "frame_max must be 0 or at least initial_frame_max (4096), not 100."),
    ("listeners.tcp = none", "there is no listener."),
    ("name = no host", "name must be NAME@HOST"),
    ("default_pass = x\ndefault_pass_file = y", "Set default_pass or default_pass_file, not both."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sentence"), BAD)
def test_a_bad_line_is_refused_by_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        settings_of(text, tmp_path)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_password_is_never_shown(tmp_path: Path) -> None:
    assert "hunter2" not in repr(settings_of("default_pass = hunter2", tmp_path))


def test_flags_beat_environment_beats_file_beats_defaults(tmp_path: Path) -> None:
    file = tmp_path / "node.conf"
    file.write_text("heartbeat = 1\nchannel_max = 1\nframe_max = 5000\n")
    settings = load_settings(
        [ConfEntry("heartbeat", "3", "--heartbeat")],
        {"MIRRORMQ_HEARTBEAT": "2", "MIRRORMQ_CHANNEL_MAX": "2", "HOME": "/"},
        file,
    )
    assert (settings.heartbeat_s, settings.channel_max, settings.frame_max) == (3, 2, 5000)
    assert settings.net_ticktime_s is None


def test_a_stronger_source_replaces_a_whole_family(tmp_path: Path) -> None:
    settings = settings_of(
        "listeners.tcp.1 = 1\nlisteners.tcp.2 = 2", tmp_path, {"MIRRORMQ_LISTENERS__TCP__DEFAULT": "9"}
    )
    assert settings.amqp_listeners == (Address("", 9),)


@pytest.mark.parametrize(
    ("variable", "value", "field", "expected"),
    [
        ("MIRRORMQ_VM_MEMORY_HIGH_WATERMARK__RELATIVE", "0.7", "memory_high_watermark_relative", 0.7),
        ("MIRRORMQ_VM_MEMORY_HIGH_WATERMARK_RELATIVE", "0.7", "memory_high_watermark_relative", 0.7),
        ("MIRRORMQ_LOOPBACK_USERS", "none", "loopback_users", ()),
        ("MIRRORMQ_LOOPBACK_USERS__ANNA", "true", "loopback_users", ("anna",)),
        ("MIRRORMQ_NAME", "a@b", "name", "a@b"),
        ("MIRRORMQ_NAME", "a@b", "data_directory", Path("var/a@b")),
    ],
)
def test_a_variable_is_a_key_in_capitals(variable: str, value: str, field: str, expected: object) -> None:
    assert getattr(load_settings(environment={variable: value}), field) == expected


def test_a_variable_that_fits_no_key_is_a_warning() -> None:
    settings = load_settings(environment={"MIRRORMQ_SERVICE_HOST": "10.0.0.1"})
    assert settings.warnings == (
        "The environment variable MIRRORMQ_SERVICE_HOST fits no setting and is ignored.",
    )


def test_the_variable_of_the_build_is_no_setting_and_no_warning() -> None:
    assert load_settings(environment={"MIRRORMQ_BUILD": "compiled"}).warnings == ()


def test_a_bad_variable_is_named() -> None:
    with pytest.raises(ConfigurationError, match="MIRRORMQ_HEARTBEAT: heartbeat must be a whole number"):
        load_settings(environment={"MIRRORMQ_HEARTBEAT": "x"})


def test_a_key_of_rabbitmq_without_meaning_here_is_a_warning(tmp_path: Path) -> None:
    keys = [key.replace("management.*", "management.ssl").replace("*", "x") for key in WITHOUT_MEANING]
    warnings = settings_of("\n".join(f"{key} = 10" for key in keys), tmp_path).warnings
    for key, warning in zip(keys, warnings, strict=True):
        assert f"{key} has no effect" in warning


def test_every_key_names_a_field_that_exists() -> None:
    settings = Settings()
    for key in [*SCALARS.values(), *FAMILIES.values()]:
        part, _, name = key.field.partition(".")
        if part and not name.startswith("category."):
            assert hasattr(settings, part), key
            assert not name or hasattr(getattr(settings, part) or UNNAMED_HOST[part], name), key


def test_the_runtime_directory_follows_its_variable_and_the_state_directory() -> None:
    assert load_settings(environment={"MIRRORMQ_RUNTIME_DIR": "/r"}).runtime_directory == Path("/r")
    assert load_settings(environment={"XDG_STATE_HOME": "/s"}).runtime_directory == Path("/s/mirrormq")


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"Cannot read the configuration file .*: No such file"):
        load_settings(environment={}, conf=tmp_path / "absent.conf")


def test_lines_keep_where_they_stand() -> None:
    assert parse_conf("\n a.b = c # d\n", "f") == [ConfEntry("a.b", "c", "f:2")]


def test_the_watermark_is_a_share_of_memory_or_a_number() -> None:
    assert Settings().memory_limit_bytes(1000) == 400
    assert Settings(memory_high_watermark_bytes=7).memory_limit_bytes(1000) == 7
    assert Settings(disk_free_limit_bytes=None, disk_free_limit_relative=2.0).disk_limit_bytes(10) == 20


def test_a_cookie_file_is_made_once_and_only_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "new" / "cookie"
    first = read_or_make(path)
    assert (len(first), path.stat().st_mode & 0o777) == (64, 0o600)
    assert read_or_make(path) == first
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        read_or_make(path)


def test_the_cookie_of_a_named_file_beats_the_variable(tmp_path: Path) -> None:
    environment = {"MIRRORMQ_COOKIE": "secret"}
    assert find_cookie(environment, None) == "secret"
    assert find_cookie(environment, tmp_path / "c") == (tmp_path / "c").read_text()


def test_without_either_the_cookie_is_the_users_own(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    assert find_cookie(environment, None) == (tmp_path / "mirrormq" / "cookie").read_text()


def test_nodes_that_start_together_find_the_same_cookie(tmp_path: Path) -> None:
    """However they take turns: each makes a whole one or reads a whole one."""
    path = tmp_path / "cookie"
    with ThreadPoolExecutor(8) as pool:
        script = f"from mirrormq.config.cookie import *; print(read_or_make(Path({str(path)!r})))"
        command = [sys.executable, "-c", script]
        ran = [pool.submit(subprocess.run, command, capture_output=True, text=True) for _ in range(8)]
    assert {run.result().stdout.strip() for run in ran} == {path.read_text()}
    assert [found.name for found in tmp_path.iterdir()] == ["cookie"]


def test_whether_the_ticktime_was_set_is_known(tmp_path: Path) -> None:
    assert settings_of("", tmp_path).net_ticktime_s is None
    assert settings_of("net_ticktime = 60", tmp_path).net_ticktime_s == 60


def test_links_in_tls_need_all_three_files(tmp_path: Path) -> None:
    for name in ("cert", "key", "ca"):
        (tmp_path / name).write_text("")
    lines = [
        f"cluster.ssl_options.{key} = {tmp_path / name}"
        for key, name in (("certfile", "cert"), ("keyfile", "key"), ("cacertfile", "ca"))
    ]
    assert settings_of("\n".join(lines), tmp_path).link_tls.cacertfile == tmp_path / "ca"
    with pytest.raises(ConfigurationError, match=r"needs cluster\.ssl_options\.certfile"):
        settings_of(lines[0], tmp_path)
