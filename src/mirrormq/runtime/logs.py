"""Log lines: structured, to the console or a file; never one per message."""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

import structlog

from mirrormq.config.settings import LogOptions

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "none": logging.CRITICAL + 10,
}


def logger(options: LogOptions) -> Any:
    """A logger as `log.*` asks for."""
    stream: TextIO = sys.stderr
    if options.file is not None:
        options.file.parent.mkdir(parents=True, exist_ok=True)
        stream = options.file.open("a", buffering=1)
    renderer: Any = structlog.processors.JSONRenderer()
    if options.formatter != "json":
        renderer = structlog.dev.ConsoleRenderer(colors=stream.isatty(), pad_event_to=0)
    return structlog.wrap_logger(
        structlog.WriteLogger(stream),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=False),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[options.level]),
    )
