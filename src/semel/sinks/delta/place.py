"""Where a Delta table lies: a folder that every machine sees, or an object store as `deltalake` takes it.

Both are read and written through one file system of Arrow's, so the rest of the sink does not know which of them it is.

Keeps: a value of `storage_options` is in no error, log or repr; an option that lets two drivers write the same entry of
       the log is refused, since the ledger stands on the log's promise that only one of them can.
Why:   in an object store the files of a job have a common beginning of their own. What failed attempts left is then
       found without a list of the whole table, which has a price there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.fs as pafs

from semel.errors import ConfigError, MissingExtraError, NoSpaceError, SinkError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
# Stores where an entry of the log is written only if nobody else has written it, by one request.
STORES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl")
# Options of object stores that give this up, the value that does so, and the variable that says the same.
_UNSAFE = {"allow_unsafe_rename": ("true", "1", "yes", "on", "y", "t"), "conditional_put": ("disabled",)}
_OPTION_BEGINS = ("aws_s3_", "aws_")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# Shorter values are no secrets, and to blot them out would make errors unreadable.
_SECRET_CHARACTERS_MIN = 4
_SECRET_NAMES = ("key", "secret", "token", "password", "sas", "account", "credential", "authorization")
NO_SPACE = "No space left on device"
_ROOM = "free space there, then start the query again; nothing of this micro-batch is in the table"
_STORE = "a bucket that is there, storage_options that fit it, and the right to list, read, write and delete"


@dataclass(frozen=True, slots=True)
class Place:
    """A table's folder or address; picklable."""

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, path: str | Path, storage_options: Mapping[str, str] | None) -> Place:
        """Check what the user gave; no value of an option is shown."""
        text, options = str(path), _checked_options(storage_options)
        if not text:
            raise ConfigError("the table's path is empty", you_want='"/data/orders" or "s3://bucket/orders"')
        if not _SCHEME.match(text):
            if options:
                raise ConfigError(
                    f"storage_options are for object stores, and {text!r} is a folder",
                    you_want='leave them out; or a path such as "s3://bucket/orders"',
                )
            return cls(str(Path(text).absolute()))
        _check_address(text)
        _check_safety(options)
        return cls(re.sub("^s3a:", "s3:", text.rstrip("/")), options)

    @property
    def is_store(self) -> bool:
        """Whether it is an object store."""
        return _SCHEME.match(self.uri) is not None

    @property
    def files(self) -> pafs.FileSystem:
        """The table's files, by their paths inside it."""
        if not self.is_store:
            return pafs.SubTreeFileSystem(self.uri, pafs.LocalFileSystem())
        try:
            # Here, since only object stores need it.
            from deltalake.fs import DeltaStorageHandler  # noqa: PLC0415
        except ImportError:
            raise MissingExtraError.of("delta", "a DeltaSink") from None
        handler: Any = DeltaStorageHandler(self.uri, dict(self.storage_options))
        return pafs.PyFileSystem(handler)

    def folder_of(self, prefix: str) -> str:
        """Where the files of a job go whose names begin so."""
        return prefix if self.is_store else ""

    def remove(self, prefix: str, *, of_job: str, but: Collection[str] = ()) -> None:
        """Remove files by what their names begin with; one that cannot be removed stays, and counts for nothing."""
        files, folder = self.files, self.folder_of(of_job)
        with suppress(OSError):
            for one in files.get_file_info(pafs.FileSelector(folder, recursive=True, allow_not_found=True)):
                name = one.base_name
                is_meant = one.type is pafs.FileType.File and name.startswith(f"{prefix}-") and name not in but
                if is_meant and name.endswith(".parquet"):
                    with suppress(OSError):
                        files.delete_file(one.path)

    def told(self, error: Exception) -> str:
        """The text of an error, without the secrets among the options."""
        text = _COLOURS.sub("", str(error))
        for name, value in self.storage_options.items():
            if _is_secret(name) and len(value) >= _SECRET_CHARACTERS_MIN:
                text = text.replace(value, "…")
        return " ".join(text.split())

    def refusal(self, what: str, error: Exception) -> SinkError:
        """An error of the library or of the file system as one of ours, which says what to do."""
        because = self.told(error)
        if NO_SPACE in because:
            return NoSpaceError(f"{what}: its disk is full", because=because, you_want=_ROOM)
        return SinkError(what, because=because, you_want=_STORE if self.is_store else "")


def place_of(table: Any) -> Place:
    """The place of a table that was loaded without options, from its own words."""
    uri = str(table.table_uri)
    return Place(unquote(urlsplit(uri).path) if uri.startswith("file:") else uri)


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in _SECRET_NAMES)


def _check_address(text: str) -> None:
    parts = urlsplit(text)
    # Azure's addresses have the container where others have a user.
    has_login = parts.password is not None or (parts.username is not None and not parts.scheme.startswith("ab"))
    if parts.scheme not in STORES or not parts.netloc or not parts.path.strip("/"):
        shown = text if parts.password is None else f"{parts.scheme}://…"
        raise ConfigError(
            f"{shown!r} is neither a folder nor an object store that is known here",
            you_want=f'"/data/orders", or "s3://bucket/orders"; stores: {", ".join(STORES)}',
        )
    if has_login or parts.query or parts.fragment:
        raise ConfigError(
            f"the address of the table on {parts.scheme!r} has more than a bucket and a path",
            because="what is secret would be shown with the path",
            you_want='"s3://bucket/orders", and the rest in storage_options',
        )


def _checked_options(given: Mapping[str, str] | None) -> dict[str, str]:
    """The options, if they are texts; what was given is not shown."""
    is_named = given is None or isinstance(given, Mapping)
    options = dict(given or {}) if is_named else {}
    if not is_named or not all(isinstance(one, str) for pair in options.items() for one in pair):
        raise ConfigError(
            "storage_options takes texts by name, and this is something else",
            you_want='storage_options={"AWS_REGION": "eu-central-1"}',
        )
    return options


def _check_safety(options: Mapping[str, str]) -> None:
    """Refuse what lets two drivers write the same entry of the log."""
    variables = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    for name, value in (*variables.items(), *options.items()):
        plain = name.lower()
        for begin in _OPTION_BEGINS:
            plain = plain.removeprefix(begin)
        if value.strip().lower() in _UNSAFE.get(plain, ()):
            raise ConfigError(
                f"{name} = {value} cannot be used with a ledger",
                because="two drivers could then write the same entry of the table's log, and one of them would lose it",
                you_want=f"leave {name} out, in storage_options and in the environment; the store has to support "
                "requests that write only what is not there yet",
            )
